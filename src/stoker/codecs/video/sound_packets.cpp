#include "stoker/codecs/video/sound_packets.h"

namespace stoker::libav {
namespace {

constexpr std::size_t kMostPackets = std::size_t{1} << 22;

AVStream* first_sound(const AVFormatContext& format) {
    for (unsigned i = 0; i < format.nb_streams; ++i) {
        if (format.streams[i]->codecpar->codec_type == AVMEDIA_TYPE_AUDIO) {
            return format.streams[i];
        }
    }
    refuse("no sound track in the file");
}

}  // namespace

SoundPackets::SoundPackets(const std::uint8_t* bytes, std::size_t size) {
    InputFile file(bytes, size);
    AVFormatContext* const format = file.open(0);
    const AVStream* const stream = first_sound(*format);
    file.choose(*stream);
    parameters_.reset(avcodec_parameters_alloc());
    check(avcodec_parameters_copy(parameters_.get(), stream->codecpar), "the track's parameters");
    unit_ = stream->time_base;
    const Packet packet(av_packet_alloc());
    int status = 0;
    for (; (status = av_read_frame(format, packet.get())) >= 0; av_packet_unref(packet.get())) {
        if (packet->stream_index != stream->index) {
            continue;
        }
        add(*packet);
        // A hostile file may refer to the same bytes many times. Headers that Matroska leaves out are small.
        if (packets_.size() > kMostPackets || data_.size() > 2 * size) {
            refuse("too many packets");
        }
    }
    if (status != AVERROR_EOF) {
        check(status, "the file");
    }
    if (packets_.empty()) {
        refuse("a sound track without samples");
    }
    data_.insert(data_.end(), AV_INPUT_BUFFER_PADDING_SIZE, 0);  // parsers read behind the last packet
}

void SoundPackets::add(const AVPacket& packet) {
    if (packet.size == 0) {
        return;
    }
    for (const AVPacketSideDataType change : {AV_PKT_DATA_NEW_EXTRADATA, AV_PKT_DATA_PARAM_CHANGE}) {
        if (av_packet_get_side_data(&packet, change, nullptr) != nullptr) {
            refuse("a sound track whose format changes");
        }
    }
    SoundPacket coded{.at = data_.size(),
                      .size = packet.size,
                      .duration = packet.duration,
                      .hidden = (packet.flags & AV_PKT_FLAG_DISCARD) != 0,
                      .corrupt = (packet.flags & AV_PKT_FLAG_CORRUPT) != 0};
    std::size_t bytes = 0;
    const std::uint8_t* const trims = av_packet_get_side_data(&packet, AV_PKT_DATA_SKIP_SAMPLES, &bytes);
    if (trims != nullptr && bytes >= 10) {  // two integers in little endian
        const auto integer = [&](int at) {
            return static_cast<std::int32_t>(trims[at] | trims[at + 1] << 8 | trims[at + 2] << 16 |
                                             static_cast<std::uint32_t>(trims[at + 3]) << 24);
        };
        coded.trims = true;
        coded.skip = std::max(integer(0), 0);
        coded.discard = integer(4);
    }
    data_.insert(data_.end(), packet.data, packet.data + packet.size);
    packets_.push_back(coded);
}

}  // namespace stoker::libav
