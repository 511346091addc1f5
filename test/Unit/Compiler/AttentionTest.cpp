#include "KernelHarness.h"
