// Arbitrary bytes as the payload of a clip in stk: refused, or every frame lies within it.
#include "fuzz/formats/sources.h"
#include "stoker/formats/stk/stk_clip.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    using namespace stoker;
    using namespace stoker::fuzz;
    const std::span<const std::byte> payload = as_input(data, size);
    std::int64_t frames = 0;
    if (!succeeds([&] { frames = stk_clip_frames(payload); })) {
        return 0;
    }
    require(frames > 0 && static_cast<std::size_t>(frames) <= size / 40);
    for (std::int64_t i = 0; i < frames; ++i) {
        succeeds([&] { touch(stk_clip_frame(payload, i).bytes); });
    }
    FieldValue value;
    value.wanted = {.count = 4, .stride = 3};
    if (succeeds([&] { set_stk_clip(payload, value); })) {
        require(value.frames.size() == 4);
    }
    return 0;
}
