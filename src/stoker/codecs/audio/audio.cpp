#include "stoker/codecs/audio/audio.h"

#include <fmt/format.h>
#include <sndfile.h>
#include <soxr.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <optional>
#include <string_view>
#include <vector>

#include "stoker/base/error.h"
#include "stoker/codecs/audio/mp3_length.h"
#include "stoker/codecs/loaded_library.h"
#include "stoker/codecs/video/sound_track.h"

namespace stoker {
namespace {

struct Sndfile {
    LoadedLibrary library{"libsndfile.so.1"};
    decltype(&sf_open_virtual) open = nullptr;
    decltype(&sf_readf_float) read = nullptr;
    decltype(&sf_seek) seek = nullptr;
    decltype(&sf_strerror) error = nullptr;
    decltype(&sf_close) close = nullptr;

    Sndfile() {
        library.find("sf_open_virtual", open);
        library.find("sf_readf_float", read);
        library.find("sf_seek", seek);
        library.find("sf_strerror", error);
        library.find("sf_close", close);
    }
};

const Sndfile& sndfile() {
    static const Sndfile functions;
    functions.library.require("libsndfile", "sounds", "libsndfile1");
    return functions;
}

struct Soxr {
    LoadedLibrary library{"libsoxr.so.0"};
    decltype(&soxr_oneshot) run = nullptr;
    decltype(&soxr_quality_spec) quality = nullptr;
    decltype(&soxr_runtime_spec) threads = nullptr;

    Soxr() {
        library.find("soxr_oneshot", run);
        library.find("soxr_quality_spec", quality);
        library.find("soxr_runtime_spec", threads);
    }
};

const Soxr& soxr() {
    static const Soxr functions;
    functions.library.require("libsoxr", "sounds", "libsoxr0");
    return functions;
}

std::string codec_of(int format) {
    switch (format & SF_FORMAT_TYPEMASK) {
        case SF_FORMAT_FLAC:
            return "flac";
        case SF_FORMAT_OGG:
            return (format & SF_FORMAT_SUBMASK) == SF_FORMAT_OPUS ? "opus" : "ogg";
        case SF_FORMAT_AIFF:
            return "aiff";
        case 0x230000:  // SF_FORMAT_MPEG, of libsndfile 1.1
            return "mp3";
        default:
            return "wav";
    }
}

bool are_finite(std::span<const float> values) {
    constexpr std::uint32_t kExponent = 0x7F800000;
    bool others = false;
    for (const float value : values) {
        others |= (std::bit_cast<std::uint32_t>(value) & kExponent) == kExponent;
    }
    return !others;
}

[[noreturn]] void refuse(std::string expected, std::string got) {
    throw DataError({}, {.where = "audio", .expected = std::move(expected), .got = std::move(got)});
}

// libsndfile shortens a WAV or an AIFF that is cut, and FFmpeg an AVI. Programs that write to a pipe leave the size
// open: 0, or near 2^31 or 2^32.
void require_whole(std::span<const std::byte> file) {
    constexpr std::size_t kHeader = 8;
    constexpr std::uint64_t kOpen = 0x7FFF0000;
    const std::string_view text(reinterpret_cast<const char*>(file.data()), std::min(file.size(), kHeader));
    const bool big = text.starts_with("FORM");
    if (text.size() < kHeader || (!big && !text.starts_with("RIFF"))) {
        return;
    }
    std::uint64_t content = 0;
    for (std::size_t i = 0; i < 4; ++i) {
        content = content << 8 | static_cast<unsigned char>(text[big ? 4 + i : 7 - i]);
    }
    if (content < kOpen && kHeader + content > file.size() + 1) {  // or without its last padding
        refuse(fmt::format("{} bytes, as the file's header says", kHeader + content), fmt::to_string(file.size()));
    }
}

}  // namespace

struct AudioFile::State {
    std::span<const std::byte> all;
    std::size_t at = 0;
    SNDFILE* file = nullptr;
    std::int64_t next = 0;            // the sample behind the part that was read last; negative after an error
    std::optional<SoundTrack> track;  // of a video

    explicit State(std::span<const std::byte> bytes) : all(bytes) {}
    State(const State&) = delete;
    State& operator=(const State&) = delete;
    ~State() {
        if (file != nullptr) {
            sndfile().close(file);
        }
    }

    AudioInfo open();  // by libsndfile
    void read_track(std::int64_t begin, PlanesView out);

  private:
    static SF_VIRTUAL_IO functions() {
        return {.get_filelen = [](void* user) { return static_cast<sf_count_t>(of(user).all.size()); },
                .seek = [](sf_count_t offset, int whence, void* user) { return of(user).seek(offset, whence); },
                .read = [](void* to, sf_count_t count, void* user) { return of(user).read(to, count); },
                .write = nullptr,
                .tell = [](void* user) { return static_cast<sf_count_t>(of(user).at); }};
    }

    static State& of(void* user) { return *static_cast<State*>(user); }

    sf_count_t seek(sf_count_t offset, int whence) {
        const auto size = static_cast<sf_count_t>(all.size());
        const sf_count_t base = whence == SEEK_SET ? 0 : whence == SEEK_CUR ? static_cast<sf_count_t>(at) : size;
        at = static_cast<std::size_t>(std::clamp<sf_count_t>(offset, -base, size - base) + base);
        return static_cast<sf_count_t>(at);
    }
    sf_count_t read(void* to, sf_count_t count) {
        const std::size_t bytes = std::min(static_cast<std::size_t>(std::max<sf_count_t>(count, 0)), all.size() - at);
        std::memcpy(to, all.data() + at, bytes);
        at += bytes;
        return static_cast<sf_count_t>(bytes);
    }
};

AudioFile::AudioFile(std::span<const std::byte> file) : state_(std::make_unique<State>(file)) {
    require_whole(file);
    if (may_have_sound_track(file)) {
        const SoundTrackInfo found = state_->track.emplace(file).info();
        info_ = {.rate = found.rate, .channels = found.channels, .samples = found.samples, .codec = found.codec};
    } else {
        info_ = state_->open();
    }
    constexpr std::uint64_t kMostPerByte = 8192;  // FLAC has up to 65,535 equal samples in 14 bytes
    const bool fits = info_.channels >= 1 && info_.rate >= 1 && info_.samples >= 1 &&
                      info_.samples <= kMostSoundSamples / info_.channels &&
                      static_cast<std::uint64_t>(info_.samples) / kMostPerByte <= file.size();
    if (!fits) {
        refuse(fmt::format("1 to {} samples that {} bytes can hold", kMostSoundSamples, file.size()),
               fmt::format("{} of {} channels, {} a second", info_.samples, info_.channels, info_.rate));
    }
}

AudioInfo AudioFile::State::open() {
    SF_VIRTUAL_IO io = functions();
    SF_INFO info{};
    file = sndfile().open(&io, SFM_READ, &info, this);
    if (file == nullptr) {
        refuse("a sound that libsndfile decodes", sndfile().error(nullptr));
    }
    const std::string codec = codec_of(info.format);
    if (const auto counted = codec == "mp3" ? counted_mp3_samples(all) : std::nullopt) {
        constexpr std::int64_t kTwoFrames = 2304;
        if (*counted > info.frames + kTwoFrames) {
            refuse(
                "an MP3 whose first frame says its length",
                fmt::format("one without: libsndfile reads {} of {} samples; encode it again", info.frames, *counted));
        }
        info.frames = std::min(info.frames, static_cast<sf_count_t>(*counted));
    }
    return {.rate = info.samplerate, .channels = info.channels, .samples = info.frames, .codec = codec};
}

void AudioFile::State::read_track(std::int64_t begin, PlanesView out) {
    track->read(begin, out);
    for (int c = 0; c < out.channels; ++c) {
        if (!are_finite({out.plane(c).row(0), static_cast<std::size_t>(out.width)})) {
            refuse("finite samples",
                   fmt::format("others from {:.3f} s on", static_cast<double>(begin) / track->info().rate));
        }
    }
}

AudioFile::~AudioFile() = default;

void AudioFile::read(std::int64_t begin, PlanesView out) {
    constexpr std::int64_t kBlock = 8192;
    const std::int64_t count = out.width;
    if (out.channels != info_.channels || out.height != 1 || begin < 0 || begin + count > info_.samples) {
        throw InvalidArgument(
            {.where = "audio",
             .expected = fmt::format("a part of {} samples of {} channels", info_.samples, info_.channels),
             .got = fmt::format("{} from {} on, of {}", count, begin, out.channels)});
    }
    if (state_->track) {
        state_->read_track(begin, out);
        return;
    }
    const auto damaged = [&](std::int64_t at) {
        refuse(fmt::format("{} samples", info_.samples),
               fmt::format("a damaged file, at {:.3f} s", static_cast<double>(at) / info_.rate));
    };
    if (begin != state_->next && sndfile().seek(state_->file, begin, SEEK_SET) != begin) {
        damaged(begin);
    }
    state_->next = -1;
    const bool mono = info_.channels == 1;  // needs no block
    std::vector<float> block(mono ? 0 : static_cast<std::size_t>(std::min(kBlock, count) * info_.channels));
    for (std::int64_t done = 0; done < count;) {
        const std::int64_t wanted = std::min(kBlock, count - done);
        float* const to = out.data + done;
        const std::int64_t got = sndfile().read(state_->file, mono ? to : block.data(), wanted);
        if (got < 1) {
            damaged(begin + done);
        }
        if (!are_finite(std::span(mono ? to : block.data(), static_cast<std::size_t>(got * info_.channels)))) {
            refuse("finite samples", fmt::format("others at {:.3f} s", static_cast<double>(begin + done) / info_.rate));
        }
        for (int c = 0; c < info_.channels && !mono; ++c) {
            const float* from = block.data() + c;
            for (std::int64_t i = 0; i < got; ++i) {
                out.plane(c).row(0)[done + i] = from[i * info_.channels];
            }
        }
        done += got;
    }
    state_->next = begin + count;
}

std::int64_t resampled_count(std::int64_t samples, int from, int to) {
    return (samples * to + from - 1) / from;
}

void resample(std::span<const float> sound, int from, int to, std::span<float> out) {
    std::size_t made = std::min(sound.size(), out.size());
    if (from == to) {
        std::copy_n(sound.data(), made, out.data());
    } else {
        const soxr_quality_spec_t quality = soxr().quality(SOXR_HQ, 0);
        const soxr_runtime_spec_t one_thread = soxr().threads(1);
        if (const soxr_error_t error = soxr().run(from, to, 1, sound.data(), sound.size(), nullptr, out.data(),
                                                  out.size(), &made, nullptr, &quality, &one_thread)) {
            refuse("a sound that libsoxr resamples", error);
        }
    }
    std::fill(out.begin() + static_cast<std::ptrdiff_t>(made), out.end(), 0.0f);
}

}  // namespace stoker
