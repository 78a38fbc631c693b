// Private to libstoker_ffmpeg.so: how many samples a packet of a sound track becomes, by its header. The containers'
// times are often rounded to milliseconds.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "stoker/codecs/video/sound_packets.h"

namespace stoker::libav {

class PacketLengths {
  public:
    // `equal`: the length of all packets, for codecs where they are equal.
    PacketLengths(const SoundPackets& packets, std::int64_t equal);

    // The samples of the next packet, in the order of the file. Empty where only decoding tells.
    std::optional<std::int64_t> next(std::size_t number);

  private:
    struct FreeParser {
        void operator()(AVCodecParserContext* parser) const { av_parser_close(parser); }
    };

    const SoundPackets& packets_;
    std::int64_t equal_;
    Decoder context_;  // not opened
    std::unique_ptr<AVCodecParserContext, FreeParser> parser_;
};

}  // namespace stoker::libav
