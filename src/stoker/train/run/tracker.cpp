// Everything is buffered until a checkpoint or an epoch's end.
#include "stoker/train/run/tracker.h"

#include <chrono>

#include "stoker/base/file.h"
#include "stoker/track/curves.h"
#include "stoker/track/scalars.h"

namespace stoker {
namespace {

double seconds(std::chrono::nanoseconds time) {
    return std::chrono::duration<double>(time).count();
}

}  // namespace

Tracker::Tracker(RunFolder& folder, std::int64_t last_step)
    : folder_(folder), events_({.folder = folder.path(), .first_step = last_step + 1}) {}

void Tracker::step(const StepMetric& metric, double loss) {
    folder_.metric(step_metric(metric, loss));
    const StepLine line{.step = metric.step,
                        .epoch = metric.epoch,
                        .samples = metric.samples,
                        .lr = metric.lr,
                        .loss = loss,
                        .seconds = seconds(metric.record.total()),
                        .wait_seconds = seconds(metric.record.times[static_cast<std::size_t>(Phase::wait)])};
    events_.add(metric.step, wall_time_now(), scalars_of(line));
}

void Tracker::epoch(const EpochResult& result, std::int64_t step) {
    folder_.metric(epoch_metric(result, step));
    const EpochLine line{.epoch = result.epoch,
                         .step = step,
                         .seconds = result.seconds,
                         .images_per_second = result.images_per_second,
                         .train_loss = result.train_loss,
                         .val_loss = result.val_loss,
                         .val_accuracy = result.val_accuracy,
                         .bad_samples = result.bad_samples,
                         .val_bad_samples = result.val_bad_samples};
    events_.add(step, wall_time_now(), scalars_of(line));
}

void Tracker::flush() {
    folder_.flush_metrics();
    events_.flush();
}

void Tracker::draw() {
    flush();
    const CurveRun curve{.name = folder_.path().filename().string(),
                         .metrics = read_metrics(folder_.path() / "metrics.jsonl")};
    if (!curve.metrics.steps.empty()) {
        write_file(folder_.path() / kCurves, curves_svg(std::span(&curve, 1)));
    }
}

}  // namespace stoker
