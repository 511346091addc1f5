//===- Layout.cpp - what a layout file says -------------------------------===//
//
// Part of BluTrain, under the Apache License v2.0.
//
//===----------------------------------------------------------------------===//

#include "Layout.h"

#include "mlir/IR/Diagnostics.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/Support/GlobPattern.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/MemoryBuffer.h"

using namespace mlir;
using namespace mlir::blu;
using namespace blutrain;

class Layout::Reader {
public:
  Reader(MLIRContext *context, StringRef path, StringRef text)
      : context(context), path(path), text(text) {}

  LogicalResult read(Layout &layout);

private:
  Location at(unsigned line, unsigned column) const {
    return FileLineColLoc::get(context, path, line, column);
  }
  /// Where `word` stands in quotes behind `from`, which moves there.
  Location find(StringRef word, size_t &from) const;
  LogicalResult readDims(const llvm::json::Value &value, Entry &entry) const;
  LogicalResult readSharded(const llvm::json::Value &value, Entry::Kind kind,
                            size_t from, Layout &layout) const;
  LogicalResult readUnsharded(const llvm::json::Value &value, Location loc,
                              size_t from, Layout &layout) const;
  static LogicalResult checkPattern(const Entry &entry);

  MLIRContext *context;
  StringRef path, text;
};

Location Layout::Reader::find(StringRef word, size_t &from) const {
  size_t found = text.find(("\"" + word + "\"").str(), from);
  // Written with escapes it is not found: then the section is said.
  if (found != StringRef::npos)
    from = found;
  StringRef before = text.take_front(from);
  size_t line = before.count('\n') + 1;
  size_t begin = before.rfind('\n') + 1; // 0 if there is none
  return at(unsigned(line), unsigned(from - begin + 1));
}

LogicalResult Layout::Reader::readDims(const llvm::json::Value &value,
                                       Entry &entry) const {
  auto invalid = [&] {
    return emitError(entry.loc)
           << "'" << entry.name
           << "': expected a list of axes for each dim, as [[\"dp\"], []]";
  };
  const llvm::json::Array *dims = value.getAsArray();
  if (!dims)
    return invalid();
  for (const llvm::json::Value &dim : *dims) {
    const llvm::json::Array *axes = dim.getAsArray();
    if (!axes)
      return invalid();
    Sharding::Axes &list = entry.sharding.dims.emplace_back();
    for (const llvm::json::Value &axis : *axes) {
      std::optional<StringRef> name = axis.getAsString();
      if (!name)
        return invalid();
      if (!llvm::is_contained(kMeshAxes, *name))
        return emitError(entry.loc)
               << "'" << entry.name
               << "': expected axes dp, pp, cp or tp, got '" << *name << "'";
      list.push_back(StringAttr::get(context, *name));
    }
  }
  return success();
}

LogicalResult Layout::Reader::checkPattern(const Entry &entry) {
  llvm::Expected<llvm::GlobPattern> pattern =
      llvm::GlobPattern::create(entry.name);
  if (!pattern)
    return emitError(entry.loc)
           << "'" << entry.name << "': " << llvm::toString(pattern.takeError());
  return success();
}

LogicalResult Layout::Reader::readSharded(const llvm::json::Value &value,
                                          Entry::Kind kind, size_t from,
                                          Layout &layout) const {
  const llvm::json::Object *object = value.getAsObject();
  bool isInput = kind == Entry::Kind::Input;
  if (!object)
    return emitError(find(isInput ? "inputs" : "parameters", from))
           << "expected an object of names and their dims";
  for (const auto &[key, dims] : *object) {
    size_t place = from;
    Entry entry{kind, StringRef(key).str(), find(key, place)};
    if (failed(readDims(dims, entry)) ||
        (!isInput && failed(checkPattern(entry))))
      return failure();
    layout.entries.push_back(std::move(entry));
  }
  return success();
}

LogicalResult Layout::Reader::readUnsharded(const llvm::json::Value &value,
                                            Location loc, size_t from,
                                            Layout &layout) const {
  const llvm::json::Array *list = value.getAsArray();
  if (!list)
    return emitError(loc) << "expected a list of names of parameters";
  for (const llvm::json::Value &name : *list) {
    if (!name.getAsString())
      return emitError(loc) << "expected a list of names of parameters";
    size_t place = from;
    Entry entry{Entry::Kind::Unsharded, name.getAsString()->str(),
                find(*name.getAsString(), place)};
    if (failed(checkPattern(entry)))
      return failure();
    layout.entries.push_back(std::move(entry));
  }
  return success();
}

LogicalResult Layout::Reader::read(Layout &layout) {
  llvm::Expected<llvm::json::Value> value = llvm::json::parse(text);
  if (!value) {
    std::pair<unsigned, unsigned> place{1, 0};
    std::string message;
    llvm::handleAllErrors(
        value.takeError(), [&](const llvm::json::ParseError &error) {
          // "[LINE:COLUMN, byte=N]: what", as it logs itself; columns from 0
          // on.
          message = error.message();
          StringRef rest = message;
          if (rest.consume_front("[") &&
              !rest.consumeInteger(10, place.first) && rest.consume_front(":"))
            rest.consumeInteger(10, place.second);
          message = StringRef(message).split("]: ").second.str();
        });
    return emitError(at(place.first, place.second + 1))
           << "expected JSON: " << message;
  }
  const llvm::json::Object *file = value->getAsObject();
  if (!file)
    return emitError(at(1, 1)) << "expected an object";
  for (const auto &[key, section] : *file) {
    size_t from = 0;
    Location loc = find(key, from);
    LogicalResult done = failure();
    if (key == "inputs")
      done = readSharded(section, Entry::Kind::Input, from, layout);
    else if (key == "parameters")
      done = readSharded(section, Entry::Kind::Parameter, from, layout);
    else if (key == "unsharded")
      done = readUnsharded(section, loc, from, layout);
    else
      return emitError(loc) << "expected inputs, parameters or unsharded, got '"
                            << StringRef(key) << "'";
    if (failed(done))
      return failure();
  }
  return success();
}

FailureOr<Layout> Layout::read(MLIRContext *context, StringRef path) {
  auto buffer = llvm::MemoryBuffer::getFile(path, /*IsText=*/true);
  if (!buffer)
    return emitError(FileLineColLoc::get(context, path, 1, 1))
           << "cannot read layout '" << path
           << "': " << buffer.getError().message();
  Layout layout;
  if (failed(Reader(context, path, (*buffer)->getBuffer()).read(layout)))
    return failure();
  return layout;
}

FailureOr<std::optional<Sharding>>
Layout::getInput(StringRef name, RankedTensorType type, const Mesh &mesh) {
  for (Entry &entry : entries) {
    if (entry.kind != Entry::Kind::Input || entry.name != name)
      continue;
    entry.isUsed = true;
    auto error = [&] {
      return emitError(entry.loc) << "input '" << name << "': ";
    };
    if (failed(entry.sharding.verify(type, mesh, error)))
      return failure();
    // Each rank reads its own rows of a batch.
    for (auto [d, axes] : llvm::enumerate(entry.sharding.dims)) {
      bool isCut = llvm::any_of(axes, [](StringAttr a) { return a == "dp"; });
      if (isCut != (d == 0))
        return error() << "dim " << d << " is " << (isCut ? "" : "not ")
                       << "cut along 'dp'; expected that of dim 0, the batch, "
                          "alone";
    }
    return std::optional<Sharding>(entry.sharding);
  }
  return std::optional<Sharding>();
}

FailureOr<bool> Layout::isUnsharded(StringRef name, RankedTensorType type,
                                    const Mesh &mesh) {
  bool isUnsharded = false;
  for (Entry &entry : entries) {
    if (entry.kind == Entry::Kind::Input ||
        !cantFail(llvm::GlobPattern::create(entry.name)).match(name))
      continue;
    entry.isUsed = true;
    if (entry.kind == Entry::Kind::Unsharded) {
      isUnsharded = true;
      continue;
    }
    auto error = [&] {
      return emitError(entry.loc) << "parameter '" << name << "': ";
    };
    if (failed(entry.sharding.verify(type, mesh, error)))
      return failure();
    for (const Sharding::Axes &axes : entry.sharding.dims)
      for (StringAttr axis : axes) {
        if (axis == "dp")
          return error() << "expected --zero to cut parameters along 'dp', "
                            "got a dim of its own";
        return error()
               << "parameters that are cut along '" << axis.getValue()
               << "' are not supported yet, expected dims that are whole";
      }
  }
  return isUnsharded;
}

LogicalResult Layout::checkUsed() const {
  for (const Entry &entry : entries)
    if (!entry.isUsed)
      return emitError(entry.loc)
             << "no "
             << (entry.kind == Entry::Kind::Input ? "input" : "parameter")
             << " is named '" << entry.name << "'";
  return success();
}
