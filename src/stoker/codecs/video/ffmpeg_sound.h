// Private to libstoker_ffmpeg.so: the sound track of a file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "stoker/codecs/video/ffmpeg_api.h"
#include "stoker/codecs/video/ffmpeg_file.h"
#include "stoker/codecs/video/sound_packets.h"

namespace stoker {

// Samples are those of FFmpeg's program: of all decoded frames in their order, without those that the file hides (the
// encoder's delay, the padding at the end, what edit lists leave out).
struct FfmpegSound {
  public:
    FfmpegSound(const std::uint8_t* bytes, std::size_t size);

    FfmpegSoundInfo info() const;
    void read(std::int64_t begin, std::int64_t count, float* const* out);

  private:
    // A decoded frame: its samples from `from` to `to` are the sound's from `begin` on.
    struct Piece {
        std::size_t packet = 0;
        std::int64_t decoded = 0;
        std::int64_t from = 0;
        std::int64_t to = 0;
        std::int64_t begin = 0;

        std::int64_t end() const { return begin + to - from; }
    };

    void try_first_packets();
    bool predict_pieces();
    void count_pieces();
    void trim_pieces();
    std::size_t choose_warm_up() const;
    libav::Decoder open_decoder(bool trims) const;
    template <typename Take>
    void decode(std::size_t first, Take take, bool trims = false);
    bool has_format(const AVFrame& frame) const;
    [[noreturn]] void refuse_damage(std::int64_t at) const;

    libav::SoundPackets packets_;
    std::vector<Piece> pieces_;  // in the order of the packets
    int rate_ = 0;
    int channels_ = 0;
    int profile_ = 0;           // of the decoder, after the first frame
    std::int64_t skipped_ = 0;  // samples that the decoder leaves out at its beginning
    std::int64_t samples_ = 0;
    std::size_t warm_up_ = 0;  // packets that are decoded before the first wanted one
    libav::Frame frame_{av_frame_alloc()};
};

// Sets the functions of the sound track.
void add_sound_functions(FfmpegApi& api);

}  // namespace stoker
