//===- Profile.cpp - Traces and tables of the device's time ---------------===//
//
// Part of BluTrain, under the Apache License v2.0.
//
//===----------------------------------------------------------------------===//

#include "Profile.h"
#include "blurt/File.h"

#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>

using namespace blurt;
using nlohmann::ordered_json;

static double toMilliseconds(Profile::Clock::duration time) {
  return std::chrono::duration<double, std::milli>(time).count();
}

void Profile::before(int64_t step) {
  // The clock starts a step early: behind that one the queue stays ahead of
  // the device.
  if (step == std::max<int64_t>(0, first - 1) && count > 0) {
    session.code()->startClock();
    zero = Clock::now();
    running = true;
  }
  if (timed(step))
    session.code()->startTimes();
}

void Profile::after(int64_t step) {
  if (!timed(step))
    return;
  session.code()->stopTimes();
  if (step + 1 < first + count)
    return;
  Clock::time_point from = Clock::now();
  spans = session.code()->takeSpans();
  auto beside =
      std::find_if(spans.begin(), spans.end(),
                   [](const DeviceSpan &span) { return span.isCollective; });
  collectives.assign(beside, spans.end());
  spans.erase(beside, spans.end());
  host("wait for the device", step, from);
  running = false;
}

void Profile::host(const char *name, int64_t step, Clock::time_point from) {
  if (running)
    hostSpans.push_back({name, step, toMilliseconds(from - zero),
                         toMilliseconds(Clock::now() - from)});
}

void Profile::took(int64_t step, double seconds) {
  // The step in which the clock starts begins with an empty queue, the first
  // two load and capture.
  if (step >= 2 && step < first - 1) {
    usualStep = step;
    usualSeconds = seconds;
  }
}

/// `amount` a second over `milliseconds` in units of `unit`, and what part of
/// `ceiling` that is; dashes for what is not known.
static std::string rateColumns(double amount, double milliseconds,
                               double ceiling, double unit) {
  char text[64];
  if (amount <= 0 || milliseconds <= 0) {
    std::snprintf(text, sizeof(text), "%8s %6s", "-", "-");
    return text;
  }
  double rate = amount / (milliseconds * 1e-3);
  int end = std::snprintf(text, sizeof(text), "%8.1f", rate / unit);
  if (ceiling > 0)
    std::snprintf(text + end, sizeof(text) - size_t(end), " %5.1f%%",
                  100 * rate / ceiling);
  else
    std::snprintf(text + end, sizeof(text) - size_t(end), " %6s", "-");
  return text;
}

void Profile::print() {
  ceilings = session.code()->measureCeilings();
  std::vector<KernelTime> times = session.code()->sumUp(spans);
  KernelTime all;
  double bytes = 0, flops = 0;
  for (const KernelTime &time : times) {
    all.milliseconds += time.milliseconds;
    all.count += time.count;
    bytes += double(time.work.bytes) * double(time.count);
    flops += double(time.work.flops) * double(time.count);
  }
  if (count == 1)
    std::printf("time by kernel in step %lld\n", static_cast<long long>(first));
  else
    std::printf("time by kernel, mean of steps %lld to %lld\n",
                static_cast<long long>(first),
                static_cast<long long>(first + count - 1));
  std::printf("%10s %6s %6s %8s %6s %8s %6s  kernel\n", "ms", "share", "count",
              "GB/s", "of", "TFLOP/s", "of");
  auto perStep = [&](uint64_t launches) {
    return static_cast<unsigned long long>(launches / uint64_t(count));
  };
  auto rates = [&](double bytes, double flops, double milliseconds) {
    return rateColumns(bytes, milliseconds, ceilings.bytesPerSecond, 1e9) +
           " " +
           rateColumns(flops, milliseconds, ceilings.flopsPerSecond, 1e12);
  };
  for (size_t i = 0; i < std::min<size_t>(times.size(), 40); ++i) {
    const KernelTime &time = times[i];
    std::printf(
        "%10.3f %5.1f%% %6llu %s  %s  (%s)\n",
        time.milliseconds / double(count),
        all.milliseconds > 0 ? 100 * time.milliseconds / all.milliseconds : 0.0,
        perStep(time.count),
        rates(double(time.work.bytes) * double(time.count),
              double(time.work.flops) * double(time.count), time.milliseconds)
            .c_str(),
        time.work.name.c_str(), time.work.source.c_str());
  }
  std::printf("%10.3f %6s %6llu %s  in all\n", all.milliseconds / double(count),
              "", perStep(all.count),
              rates(bytes, flops, all.milliseconds).c_str());
  for (const KernelTime &time : session.code()->sumUp(collectives))
    std::printf("%10.3f %6s %6llu %s  %s  (%s)\n",
                time.milliseconds / double(count), "beside",
                perStep(time.count),
                rateColumns(double(time.work.bytes) * double(time.count),
                            time.milliseconds, 0, 1e9)
                    .c_str(),
                time.work.name.c_str(), time.work.source.c_str());
  if (ceilings.bytesPerSecond > 0)
    std::printf("ceiling: %.1f GB/s, a %s\n", ceilings.bytesPerSecond * 1e-9,
                ceilings.copy.c_str());
  if (ceilings.flopsPerSecond > 0)
    std::printf("ceiling: %.1f TFLOP/s, a %s\n",
                ceilings.flopsPerSecond * 1e-12, ceilings.product.c_str());
  std::printf("each launch was timed between two events of its own, not as one "
              "graph\n");
  if (usualStep >= 0)
    std::printf("step %lld, without them: %.3f ms\n",
                static_cast<long long>(usualStep), usualSeconds * 1e3);
}

void Profile::write(const std::string &path,
                    const blurt_program &program) const {
  enum Process : int { Device = 1, Host = 2 };
  ordered_json events = ordered_json::array();
  auto name = [&](const char *what, int process, int thread,
                  const std::string &text) {
    ordered_json event;
    event["ph"] = "M";
    event["name"] = what;
    event["pid"] = process;
    event["tid"] = thread;
    event["args"]["name"] = text;
    events.push_back(std::move(event));
  };
  name("process_name", Device, 0, session.device()->description());
  name("thread_name", Device, 1, "kernels");
  name("thread_name", Device, 2, "steps");
  if (!collectives.empty())
    name("thread_name", Device, 3, "collectives");
  name("process_name", Host, 0, "host");
  name("thread_name", Host, 1, "training loop");
  auto span = [&](int process, int thread, const std::string &text,
                  const char *category, double start, double milliseconds) {
    ordered_json event;
    event["ph"] = "X";
    event["name"] = text;
    event["cat"] = category;
    event["pid"] = process;
    event["tid"] = thread;
    event["ts"] = start * 1e3;
    event["dur"] = milliseconds * 1e3;
    return event;
  };
  for (size_t i = 0; i < spans.size(); ++i) {
    const DeviceSpan &s = spans[i];
    DeviceWork work = session.code()->describe(s.item);
    bool isOp = work.isKernel || work.flops;
    ordered_json event = span(Device, 1, isOp ? work.source : work.name,
                              work.isKernel ? "kernel"
                              : isOp        ? "product"
                                            : "copy",
                              s.start, s.milliseconds);
    ordered_json &args = event["args"];
    args["step"] = first + s.round;
    args[work.isKernel ? "kernel" : "call"] = work.name;
    if (work.isKernel) {
      args["grid"] = work.grid;
      args["block"] = work.block;
    }
    if (work.bytes)
      args["bytes"] = work.bytes;
    if (work.flops)
      args["flops"] = work.flops;
    events.push_back(std::move(event));
  }
  for (const DeviceSpan &s : collectives) {
    DeviceWork work = session.code()->describe(s.item);
    ordered_json event =
        span(Device, 3, work.source, "collective", s.start, s.milliseconds);
    event["args"]["step"] = first + s.round;
    event["args"]["call"] = work.name;
    event["args"]["bytes"] = work.bytes;
    events.push_back(std::move(event));
  }
  for (size_t i = 0, next; i < spans.size(); i = next) {
    for (next = i; next < spans.size() && spans[next].round == spans[i].round;)
      ++next;
    double end = spans[next - 1].start + spans[next - 1].milliseconds;
    events.push_back(span(Device, 2,
                          "step " + std::to_string(first + spans[i].round),
                          "step", spans[i].start, end - spans[i].start));
  }
  for (const HostSpan &s : hostSpans) {
    ordered_json event = span(Host, 1, s.name, "host", s.start, s.milliseconds);
    event["args"]["step"] = s.step;
    events.push_back(std::move(event));
  }
  ordered_json file;
  file["traceEvents"] = std::move(events);
  file["displayTimeUnit"] = "ms";
  ordered_json &other = file["otherData"];
  other["model"] = program.name;
  other["plan_hash"] = program.plan_hash;
  other["device"] = session.device()->name();
  other["copy_bytes_per_s"] = ceilings.bytesPerSecond;
  other["copy"] = ceilings.copy;
  other["product_flops_per_s"] = ceilings.flopsPerSecond;
  other["product"] = ceilings.product;
  AtomicFile output(path);
  output.write(
      file.dump(-1, ' ', false, ordered_json::error_handler_t::replace) + "\n");
  output.commit();
}
