#include "stoker/pipeline/read_sample.h"

#include <algorithm>
#include <fmt/format.h>
#include <new>

#include "stoker/base/error.h"
#include "stoker/base/map_damage.h"
#include "stoker/base/memory_limit.h"
#include "stoker/codecs/audio/audio.h"
#include "stoker/codecs/tiff.h"
#include "stoker/codecs/video/video.h"
#include "stoker/formats/image_kind.h"
#include "stoker/pipeline/transforms/transform.h"

namespace stoker {

void read_sample(const Dataset& dataset, std::int64_t index, Sample& sample, const FrameWindow& wanted) {
    const auto reset = [&](FieldValue& value) {
        value.set_raw({}, 0, 0, 0);
        value.wanted = wanted;
    };
    reset(sample);
    sample.label = -1;
    std::ranges::for_each(sample.fields, reset);
    dataset.read(index, sample);
}

namespace {

// Pillow's convert("L"), of RGB without padding.
void to_grey(ConstImageView rgb, std::uint8_t* to) {
    const std::uint8_t* const end = rgb.data + rgb.row_bytes() * static_cast<std::size_t>(rgb.height);
    for (const std::uint8_t* from = rgb.data; from != end; from += 3) {
        *to++ = static_cast<std::uint8_t>((from[0] * 19595U + from[1] * 38470U + from[2] * 7471U + 0x8000U) >> 16);
    }
}

// Decodes the frames into `pixels`.
void add_video_frames(Sample& sample, const FrameWindow& wanted, bool grey, Buffer& pixels) {
    if (wanted.count == 0) {
        throw InvalidArgument({.where = "data.frames",
                               .expected = "the number of frames to read of each video",
                               .got = "none",
                               .hint = "such as data.frames = 16"});
    }
    VideoFile video(sample.bytes);
    sample.clip_frames = video.info().frames;
    video.decode(wanted.of(sample.clip_frames), [&](ConstImageView frame) {
        const int channels = grey ? 1 : 3;
        const std::size_t area = static_cast<std::size_t>(frame.height) * static_cast<std::size_t>(frame.width);
        const std::size_t size = area * static_cast<std::size_t>(channels);
        const std::size_t at = sample.frames.size() * size;
        FieldValue& value = sample.frames.emplace_back();
        if (at == 0) {
            pixels.resize(size * static_cast<std::size_t>(wanted.count));
        }
        const bool fits = pixels.size() == size * static_cast<std::size_t>(wanted.count);
        if (!fits) {  // of another size than the first: refused later
            value.storage.resize(size);
        }
        const std::span<std::byte> to = fits ? pixels.bytes().subspan(at, size) : value.storage.bytes();
        if (grey) {
            to_grey(frame, reinterpret_cast<std::uint8_t*>(to.data()));
        } else {
            std::ranges::copy(std::as_bytes(std::span(frame.data, size)), to.begin());
        }
        value.set_raw(to, frame.height, frame.width, channels);
    });
}

// Into the first.
void average_channels(PlanesView sound) {
    for (int i = 0; i < sound.width; ++i) {
        float sum = 0;
        for (int c = 0; c < sound.channels; ++c) {
            sum += sound.plane(c).data[i];
        }
        sound.data[i] = sum / static_cast<float>(sound.channels);
    }
}

// The wanted part of the sound as planes (C, 1, samples) in `memory`. Channels of a sound that becomes mono are
// averaged.
void decode_sound(Sample& sample, const FrameWindow& wanted, bool mono, Buffer& memory) {
    AudioFile file(sample.bytes);
    const AudioInfo& info = file.info();
    const int rate = wanted.sample_rate > 0 ? wanted.sample_rate : info.rate;
    constexpr std::int64_t kMostRatio = 1000;  // libsoxr needs minutes for some above 2^19
    if (info.rate > kMostRatio * rate || rate > kMostRatio * info.rate) {
        throw DataError({}, {.where = "audio",
                             .expected = fmt::format("a rate that can be resampled to {} Hz", rate),
                             .got = fmt::format("{} Hz", info.rate)});
    }
    const std::int64_t all = resampled_count(info.samples, info.rate, rate);
    const std::int64_t count = wanted.count > 0 ? wanted.count : all;
    const int channels = mono ? 1 : info.channels;
    if (count > kMostSoundSamples / channels) {
        throw DataError({}, {.where = "audio",
                             .expected = fmt::format("at most {} samples", kMostSoundSamples),
                             .got = fmt::format("{} of {} channels", count, channels)});
    }
    // As many of the file's samples as give `count`, or all.
    const std::int64_t read = std::min(info.samples, resampled_count(count, rate, info.rate));
    const auto begin = static_cast<std::int64_t>(wanted.at * static_cast<double>(info.samples - read + 1));
    const bool as_stored = rate == info.rate && channels == info.channels;
    const std::int64_t own = as_stored ? 0 : read * info.channels;
    const auto floats = static_cast<std::size_t>(own + count * channels);
    constexpr std::size_t kUnchecked = std::size_t{64} << 20;
    if (floats * sizeof(float) > kUnchecked) {
        require_memory(floats * sizeof(float), "a sound");
    }
    memory.resize(floats * sizeof(float));
    auto* const result = reinterpret_cast<float*>(memory.data());
    const std::ptrdiff_t step = as_stored ? count : read;
    const PlanesView stored{
        as_stored ? result : result + count * channels, info.channels, 1, static_cast<int>(read), step, step};
    file.read(std::min(begin, info.samples - read), stored);
    if (mono && info.channels > 1) {
        average_channels(stored);
    }
    for (int c = 0; c < channels && as_stored; ++c) {
        std::fill_n(result + c * count + read, count - read, 0.0f);
    }
    for (int c = 0; c < channels && !as_stored; ++c) {
        resample({stored.plane(c).row(0), static_cast<std::size_t>(read)}, info.rate, rate,
                 {result + c * count, static_cast<std::size_t>(count)});
    }
    const auto size = static_cast<std::size_t>(count * channels) * sizeof(float);
    sample.set_raw(memory.bytes().first(size), 1, static_cast<int>(count), channels);
    sample.planes = true;
    sample.dtype = DType::float32;
}

// The frames refer to the value's bytes.
void add_pages(FieldValue& value, const FrameWindow& wanted) {
    if (!value.encoded || !value.frames.empty() || wanted.count == 0 || !is_tiff(value.bytes)) {
        return;
    }
    const std::vector<std::uint64_t> pages = tiff_pages(value.bytes);
    value.clip_frames = std::ssize(pages);
    for (const std::int64_t page : wanted.of(value.clip_frames)) {
        FieldValue& frame = value.frames.emplace_back();
        frame.set_encoded_image(value.bytes);
        frame.page = pages[static_cast<std::size_t>(page)];
    }
}

}  // namespace

bool decode_wanted(Sample& sample, const FrameWindow& wanted, Buffer& memory, std::int64_t channels) {
    const bool one_file = sample.encoded && sample.frames.empty();
    if (one_file && (is_sound(sample.bytes) || (wanted.sample_rate > 0 && is_video(sample.bytes)))) {
        decode_sound(sample, wanted, /*mono=*/channels == 1, memory);
        return true;
    }
    if (wanted.sample_rate > 0) {
        return false;
    }
    if (one_file && is_video(sample.bytes)) {
        add_video_frames(sample, wanted, /*grey=*/channels == 1, memory);
        return true;
    }
    if (wanted.count > 0) {
        add_pages(sample, wanted);
        std::ranges::for_each(sample.fields, [&](FieldValue& field) { add_pages(field, wanted); });
    }
    return false;
}

void rethrow_located(const Dataset& dataset, std::int64_t index) {
    check_maps();
    const DataPlace place{.path = dataset.path(), .key = key_or_index(dataset, index), .index = index};
    try {
        throw;
    } catch (const SizeMismatch& error) {
        const DataError full = error.located(place);
        throw SizeMismatch(full.place(), full.info());
    } catch (const DataError& error) {
        throw error.located(place);
    } catch (const Unsupported& error) {  // unsupported is this sample, not the data set
        throw DataError(place, {.where = "sample", .expected = "a sample that can be read", .got = error.what()});
    } catch (const MemoryError& error) {  // depends on the machine, so replacing the sample would change the order
        throw error.within(fmt::format("{}: {}", dataset.path(), place.key));
    } catch (const Error&) {
        throw;
    } catch (const std::bad_alloc&) {
        throw;
    } catch (const std::exception& error) {
        throw DataError(place, {.where = "data set", .expected = "a sample that can be read", .got = error.what()});
    }
}

}  // namespace stoker
