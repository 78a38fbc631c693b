#include "stoker/codecs/video/packet_lengths.h"

namespace stoker::libav {
namespace {

bool has_parser(AVCodecID codec) {
    return codec == AV_CODEC_ID_OPUS || codec == AV_CODEC_ID_VORBIS || codec == AV_CODEC_ID_FLAC;
}

bool is_pcm(AVCodecID codec) {
    return codec >= AV_CODEC_ID_FIRST_AUDIO && codec < AV_CODEC_ID_ADPCM_IMA_QT;
}

// Packets of Opus in its mode for music, CELT. The others are resampled: some samples come with the next packet.
bool is_celt(const SoundPackets& packets, std::size_t number) {
    return packets.parameters().ch_layout.nb_channels <= 2 && packets[number].size > 0 &&
           (*packets.data(number) & 0x80) != 0;
}

}  // namespace

PacketLengths::PacketLengths(const SoundPackets& packets, std::int64_t equal)
    : packets_(packets), equal_(equal), context_(avcodec_alloc_context3(nullptr)) {
    const AVCodecID codec = packets.parameters().codec_id;
    check(avcodec_parameters_to_context(context_.get(), &packets.parameters()), "the track's parameters");
    if (has_parser(codec)) {
        parser_.reset(av_parser_init(codec));
    }
    if (parser_ != nullptr) {
        parser_->flags |= PARSER_FLAG_COMPLETE_FRAMES;
    }
}

std::optional<std::int64_t> PacketLengths::next(std::size_t number) {
    const AVCodecID codec = packets_.parameters().codec_id;
    const SoundPacket& packet = packets_[number];
    std::int64_t found = 0;
    if (parser_ != nullptr) {
        std::uint8_t* out = nullptr;
        int size = 0;
        parser_->duration = 0;
        av_parser_parse2(parser_.get(), context_.get(), &out, &size, packets_.data(number), packet.size, AV_NOPTS_VALUE,
                         AV_NOPTS_VALUE, 0);
        found = codec != AV_CODEC_ID_OPUS || is_celt(packets_, number) ? parser_->duration : 0;
    } else if (is_pcm(codec)) {
        found = av_get_audio_frame_duration2(const_cast<AVCodecParameters*>(&packets_.parameters()), packet.size);
    } else if (codec == AV_CODEC_ID_ALAC) {
        const AVRational unit = packets_.unit();
        found = unit.num == 1 && unit.den == packets_.parameters().sample_rate ? packet.duration : 0;
    } else if (codec == AV_CODEC_ID_AAC || codec == AV_CODEC_ID_MP1 || codec == AV_CODEC_ID_MP2 ||
               codec == AV_CODEC_ID_MP3 || codec == AV_CODEC_ID_AC3) {
        found = equal_;
    }
    return found > 0 ? std::optional(found) : std::nullopt;
}

}  // namespace stoker::libav
