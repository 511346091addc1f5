#include "Blurt/BlurtDialect.h"
#include "blutrain/Conversion/Passes.h"
namespace blutrain {
#define GEN_PASS_DEF_FUSEGROUPS
#include "blutrain/Conversion/Passes.h.inc"
} // namespace blutrain
namespace {
struct FuseGroups : public blutrain::impl::FuseGroupsBase<FuseGroups> {
  using FuseGroupsBase::FuseGroupsBase;
  void runOnOperation() override {}
};
} // namespace
