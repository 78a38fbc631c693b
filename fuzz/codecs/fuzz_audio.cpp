// Arbitrary bytes as a sound: refused with DataError, or a part of it is read and resampled.
#include <new>
#include <vector>

#include "fuzz/codecs/decode.h"
#include "fuzz/codecs/known_leaks.h"
#include "stoker/base/memory_limit.h"
#include "stoker/codecs/audio/audio.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    using namespace stoker;
    try {
        AudioFile file(fuzz::as_input(data, size));
        const AudioInfo& info = file.info();
        fuzz::require(info.rate > 0 && info.channels > 0 && info.samples > 0);
        const std::int64_t count = std::min<std::int64_t>(info.samples, 20000 / info.channels + 1);
        if (info.channels > 64) {
            return 0;
        }
        Planes sound;
        const PlanesView part = sound.reset(info.channels, 1, static_cast<int>(count));
        file.read((info.samples - count) / 2, part);
        std::vector<float> out(static_cast<std::size_t>(std::min<std::int64_t>(count, 1000)));
        resample({part.data, static_cast<std::size_t>(count)}, info.rate, 16000, out);
    } catch (const DataError&) {
    } catch (const MemoryError&) {
    } catch (const std::bad_alloc&) {
    } catch (const IoError&) {  // the libraries are not installed
    }
    return 0;
}
