#include "stoker/train/step/seed_step.h"

#include <ATen/Context.h>

#include <mutex>

#include "stoker/base/rng.h"

namespace stoker {
namespace {

constexpr std::uint16_t kModelDraws = 0xFFFF;  // no op of the data has this number

}  // namespace

void seed_step(std::uint64_t seed, std::int64_t step, const c10::Device& device, int slice) {
    Rng rng({.seed = seed,
             .epoch = static_cast<std::uint32_t>(slice),
             .sample = static_cast<std::uint64_t>(step),
             .op = kModelDraws});
    const std::uint64_t drawn = rng.next();
    const auto seed_on = [drawn](const c10::Device& on) {
        at::Generator generator = at::globalContext().defaultGenerator(on);
        const std::lock_guard lock(generator.mutex());
        generator.set_current_seed(drawn);
    };
    seed_on(device);
    if (!device.is_cpu()) {
        seed_on(at::kCPU);  // a model on a GPU may also draw on the host
    }
}

}  // namespace stoker
