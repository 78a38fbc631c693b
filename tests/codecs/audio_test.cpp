// Parts of sounds, damage and resampling, on WAV files made here.
#include "stoker/codecs/audio/audio.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numbers>
#include <vector>

#include "codecs/fixtures.h"
#include "stoker/base/error.h"
#include "stoker/codecs/audio/mp3_length.h"

namespace stoker {
namespace {

using namespace stoker::testing;

constexpr int kSamples = 20000;

int value_at(int sample, int channel) {
    return (sample * 7 + channel * 1000) % 30011 - 15000;
}

// A RIFF file of 16 bits, of two channels.
Bytes wav_file(int samples = kSamples, int rate = 8000) {
    Bytes data;
    for (int i = 0; i < samples; ++i) {
        for (int c = 0; c < 2; ++c) {
            append_number(data, static_cast<std::uint16_t>(value_at(i, c)), 2, false);
        }
    }
    Bytes file = bytes_of("RIFF");
    append_number(file, 36 + data.size(), 4, false);
    file = joined({file, bytes_of("WAVEfmt ")});
    for (const auto& [value, bytes] :
         std::vector<std::pair<int, int>>{{16, 4}, {1, 2}, {2, 2}, {rate, 4}, {rate * 4, 4}, {4, 2}, {16, 2}}) {
        append_number(file, static_cast<std::uint64_t>(value), bytes, false);
    }
    file = joined({file, bytes_of("data")});
    append_number(file, data.size(), 4, false);
    return joined({file, data});
}

TEST(Audio, ReadsAnyPart) {
    const Bytes file = wav_file();
    AudioFile sound(file);
    EXPECT_EQ(sound.info().rate, 8000);
    EXPECT_EQ(sound.info().channels, 2);
    EXPECT_EQ(sound.info().samples, kSamples);
    EXPECT_EQ(sound.info().codec, "wav");
    Planes memory;
    for (const auto& [begin, count] : std::vector<std::pair<int, int>>{{0, kSamples}, {19000, 1000}, {5, 8193}}) {
        const PlanesView part = memory.reset(2, 1, count);
        AudioFile(file).read(begin, part);
        for (int c = 0; c < 2; ++c) {
            for (int i = 0; i < count; ++i) {
                ASSERT_EQ(part.plane(c).row(0)[i], static_cast<float>(value_at(begin + i, c)) / 32768);
            }
        }
    }
    EXPECT_THROW(sound.read(19001, memory.reset(2, 1, 1000)), InvalidArgument);
    EXPECT_THROW(sound.read(0, memory.reset(1, 1, 1000)), InvalidArgument);
}

TEST(Audio, RefusesOtherBytes) {
    Bytes file = wav_file(100);
    EXPECT_THROW(AudioFile(std::span<const std::byte>(file).first(20)), DataError);
    EXPECT_THROW(AudioFile(bytes_of("fLaC and then text, not a stream")), DataError);
    EXPECT_THROW(AudioFile(wav_file(0)), DataError);
}

TEST(Mp3Length, CountsFrames) {
    const auto frame = [](int rate_index, std::size_t bytes, std::string_view text = "") {
        Bytes made(bytes);
        made[0] = std::byte{0xFF};
        made[1] = std::byte{0xFB};  // MPEG-1, layer 3
        made[2] = static_cast<std::byte>(rate_index << 4);
        std::ranges::copy(bytes_of(text), made.begin() + 36);
        return made;
    };
    const Bytes slow = frame(1, 104);  // 32 kbit/s at 44,100 Hz
    const Bytes fast = frame(9, 417);  // 128 kbit/s
    EXPECT_EQ(counted_mp3_samples(joined({slow, fast, slow, fast})), 4 * 1152);
    EXPECT_EQ(counted_mp3_samples(joined({slow, fast, bytes_of("TAG and more")})), 2 * 1152);
    EXPECT_EQ(counted_mp3_samples(joined({slow, std::span<const std::byte>(fast).first(300)})), 1152);
    EXPECT_EQ(counted_mp3_samples(joined({frame(9, 417, "Xing"), slow})), std::nullopt);
    EXPECT_EQ(counted_mp3_samples(bytes_of("something else")), std::nullopt);
    Bytes tag = bytes_of("ID3");
    append_number(tag, 4, 2, false);
    append_number(tag, 0, 1, false);
    tag.insert(tag.end(), {std::byte{0}, std::byte{0}, std::byte{1}, std::byte{2}});  // 130 bytes
    EXPECT_EQ(counted_mp3_samples(joined({tag, Bytes(130), slow, slow})), 2 * 1152);
    EXPECT_EQ(counted_mp3_samples(tag), std::nullopt);
}

TEST(Audio, ResamplesATone) {
    const auto tone = [](int rate, int samples) {
        std::vector<float> values(static_cast<std::size_t>(samples));
        for (std::size_t i = 0; i < values.size(); ++i) {
            values[i] = static_cast<float>(std::sin(2 * std::numbers::pi * 440 * static_cast<double>(i) / rate));
        }
        return values;
    };
    EXPECT_EQ(resampled_count(44100, 44100, 16000), 16000);
    EXPECT_EQ(resampled_count(44101, 44100, 16000), 16001);
    const std::vector<float> from = tone(44100, 44100);
    const std::vector<float> wanted = tone(16000, 16000);
    std::vector<float> got(17000);
    resample(from, 44100, 16000, got);
    for (std::size_t i = 500; i < 15500; ++i) {  // both ends ring
        ASSERT_NEAR(got[i], wanted[i], 1e-4) << i;
    }
    EXPECT_EQ(got[16500], 0);
}

}  // namespace
}  // namespace stoker
