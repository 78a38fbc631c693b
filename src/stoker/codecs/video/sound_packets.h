// Private to libstoker_ffmpeg.so: all packets of a file's first sound track. They are kept, since they are small, so
// that any part is decoded without another look at the file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "stoker/codecs/video/ffmpeg_file.h"

namespace stoker::libav {

struct SoundPacket {
    std::size_t at = 0;  // in SoundPackets::data
    int size = 0;
    std::int64_t duration = 0;  // in units of the stream
    bool trims = false;         // `skip` and `discard` are valid
    std::int64_t skip = 0;      // samples that are not heard, from the packet's first on
    std::int64_t discard = 0;   // the same at the end of the packet's frame
    bool hidden = false;        // nothing of it is heard
    bool corrupt = false;       // its end is missing, say
};

class SoundPackets {
  public:
    SoundPackets(const std::uint8_t* bytes, std::size_t size);

    std::size_t size() const { return packets_.size(); }
    const SoundPacket& operator[](std::size_t number) const { return packets_[number]; }
    const std::uint8_t* data(std::size_t number) const { return data_.data() + packets_[number].at; }

    const AVCodecParameters& parameters() const { return *parameters_; }
    AVRational unit() const { return unit_; }  // of durations

  private:
    struct FreeParameters {
        void operator()(AVCodecParameters* parameters) const { avcodec_parameters_free(&parameters); }
    };

    void add(const AVPacket& packet);

    std::unique_ptr<AVCodecParameters, FreeParameters> parameters_;
    AVRational unit_{};
    std::vector<SoundPacket> packets_;
    std::vector<std::uint8_t> data_;
};

}  // namespace stoker::libav
