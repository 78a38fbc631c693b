// Opening decodes the first packets. The lengths of the others follow from their headers for the codecs that matter;
// otherwise all are decoded once. libavcodec's own trimming is off, since it depends on where decoding begins:
// trim_pieces has its rules.
#include "stoker/codecs/video/ffmpeg_sound.h"

#include <limits>

#include "stoker/codecs/video/ffmpeg_samples.h"
#include "stoker/codecs/video/packet_lengths.h"

namespace stoker {

using libav::check;
using libav::refuse;

namespace {

constexpr std::int64_t kMostSamples = std::int64_t{1} << 28;  // of all channels
constexpr std::size_t kAllPackets = std::numeric_limits<std::size_t>::max();

}  // namespace

FfmpegSound::FfmpegSound(const std::uint8_t* bytes, std::size_t size) : packets_(bytes, size) {
    try_first_packets();
    if (predict_pieces()) {
        warm_up_ = choose_warm_up();
    } else {
        count_pieces();
        warm_up_ = kAllPackets;
    }
    trim_pieces();
}

FfmpegSoundInfo FfmpegSound::info() const {
    return {.rate = rate_,
            .channels = channels_,
            .samples = samples_,
            .codec = avcodec_get_name(packets_.parameters().codec_id)};
}

libav::Decoder FfmpegSound::open_decoder(bool trims) const {
    const AVCodecParameters& parameters = packets_.parameters();
    const AVCodec* const codec = avcodec_find_decoder(parameters.codec_id);
    if (codec == nullptr) {
        refuse(std::string("FFmpeg lacks a decoder for ") + avcodec_get_name(parameters.codec_id));
    }
    libav::Decoder decoder(avcodec_alloc_context3(codec));
    check(avcodec_parameters_to_context(decoder.get(), &parameters), "the decoder");
    decoder->thread_count = 1;  // workers are threads
    decoder->max_samples = kMostSamples;
    decoder->flags2 |= trims ? 0 : AV_CODEC_FLAG2_SKIP_MANUAL;
    if (codec->id == AV_CODEC_ID_FLAC) {  // damage shows in its checksums alone
        decoder->err_recognition |= AV_EF_CRCCHECK | AV_EF_EXPLODE;
    }
    check(avcodec_open2(decoder.get(), codec, nullptr), "the decoder");
    return decoder;
}

// Decodes from packet `first` on with a new decoder, which knows no other packets. take(packet's number, frame) gets
// null for a damaged packet, and returns false to stop. `trims`: the decoder leaves out its own delay.
template <typename Take>
void FfmpegSound::decode(std::size_t first, Take take, bool trims) {
    constexpr int kMostFrames = 1 << 16;  // of a packet
    const libav::Decoder decoder = open_decoder(trims);
    const libav::Packet packet(av_packet_alloc());
    std::size_t number = first;  // of the frame's packet
    for (std::size_t i = first; i <= packets_.size(); ++i) {
        const bool at_end = i == packets_.size();
        if (!at_end) {
            packet->data = const_cast<std::uint8_t*>(packets_.data(i));  // libavcodec copies it
            packet->size = packets_[i].size;
            packet->pts = static_cast<std::int64_t>(i);
            packet->flags = AV_PKT_FLAG_KEY | (packets_[i].corrupt ? AV_PKT_FLAG_CORRUPT : 0);
        }
        const std::size_t last = at_end ? i - 1 : i;
        int status = avcodec_send_packet(decoder.get(), at_end ? nullptr : packet.get());
        for (int frames = 0; status >= 0 && frames < kMostFrames; ++frames) {
            status = avcodec_receive_frame(decoder.get(), frame_.get());
            if (status < 0) {
                break;
            }
            const auto named = static_cast<std::size_t>(frame_->pts);
            number = named >= number && named < last ? named : last;
            if (!take(number, frame_.get())) {
                profile_ = decoder->profile;
                return;
            }
        }
        if (status == AVERROR(ENOMEM)) {
            throw std::bad_alloc();
        }
        if (status != AVERROR(EAGAIN) && status != AVERROR_EOF && !take(last, nullptr)) {
            return;
        }
    }
    profile_ = decoder->profile;
}

bool FfmpegSound::has_format(const AVFrame& frame) const {
    return frame.sample_rate == rate_ && frame.ch_layout.nb_channels == channels_;
}

void FfmpegSound::refuse_damage(std::int64_t at) const {
    char text[64] = "";
    std::snprintf(text, sizeof text, "a damaged file, at %.3f s", rate_ > 0 ? static_cast<double>(at) / rate_ : 0.0);
    refuse(text);
}

// Finds the rate, the channels, the first pieces, and how many samples the decoder leaves out at its beginning.
void FfmpegSound::try_first_packets() {
    std::size_t heard = 0;  // the first packet that is
    std::int64_t left = 0;
    const auto find_first = [&](std::size_t number, const AVFrame* frame) {
        heard = number;
        left = frame != nullptr ? frame->nb_samples : 0;
        return left == 0;
    };
    decode(0, find_first, /*trims=*/true);
    const std::size_t tried = std::max<std::size_t>(6, heard + 1);
    decode(0, [&](std::size_t number, const AVFrame* frame) {
        if (number >= tried && rate_ > 0) {
            return false;
        }
        if (frame == nullptr) {
            return true;
        }
        if (rate_ == 0) {
            rate_ = frame->sample_rate;
            channels_ = frame->ch_layout.nb_channels;
        }
        pieces_.push_back({.packet = number, .decoded = frame->nb_samples});
        skipped_ += number <= heard ? frame->nb_samples : 0;
        return true;
    });
    skipped_ = std::max<std::int64_t>(skipped_ - left, 0);
    if (rate_ <= 0 || channels_ <= 0) {
        refuse_damage(0);
    }
}

// False if the packets do not say how long they are, or were wrong about the first ones.
bool FfmpegSound::predict_pieces() {
    const std::vector<Piece> first = std::move(pieces_);
    pieces_.clear();
    libav::PacketLengths lengths(packets_, first.back().decoded);
    std::int64_t samples = 0;
    std::size_t next = 0;
    for (std::size_t i = 0; i < packets_.size(); ++i) {
        const std::optional<std::int64_t> length = lengths.next(i);
        const bool decoded = next < first.size() && first[next].packet == i;
        const bool as_decoded = !decoded || first[next].decoded == length;
        next += decoded ? 1 : 0;
        if (i == 0 && (!decoded || !as_decoded)) {  // the first packet may give less
            if (decoded) {
                pieces_.push_back({.packet = i, .decoded = first[0].decoded});
            }
            continue;
        }
        if (!length || !as_decoded) {
            return false;
        }
        samples += *length;
        if (samples > kMostSamples / channels_) {
            refuse("more samples than are read");
        }
        pieces_.push_back({.packet = i, .decoded = *length});
    }
    return next == first.size();
}

void FfmpegSound::count_pieces() {
    pieces_.clear();
    std::int64_t samples = 0;
    decode(0, [&](std::size_t number, const AVFrame* frame) {
        if (frame == nullptr || !has_format(*frame)) {
            refuse_damage(samples);
        }
        pieces_.push_back({.packet = number, .decoded = frame->nb_samples});
        samples += frame->nb_samples;
        if (samples > kMostSamples / channels_) {
            refuse("more samples than are read");
        }
        return true;
    });
}

// As discard_samples of libavcodec/decode.c, for each frame in the order of the file.
void FfmpegSound::trim_pieces() {
    std::int64_t skip = skipped_;
    std::size_t at = 0;
    for (std::size_t i = 0; i < packets_.size(); ++i) {
        const libav::SoundPacket& packet = packets_[i];
        skip = packet.trims ? packet.skip : skip;
        for (; at < pieces_.size() && pieces_[at].packet == i; ++at) {
            Piece& piece = pieces_[at];
            piece.begin = samples_;
            piece.from = packet.hidden ? piece.decoded : std::min(skip, piece.decoded);
            piece.to = piece.decoded;
            skip = std::max<std::int64_t>(skip - piece.decoded, 0);
            if (packet.trims && packet.discard > 0 && packet.discard <= piece.to - piece.from) {
                piece.to -= packet.discard;
            }
            samples_ += piece.to - piece.from;
        }
    }
    if (samples_ == 0) {
        refuse("a sound track without samples");
    }
}

// Codecs whose decoders keep a state for long are decoded from the beginning.
std::size_t FfmpegSound::choose_warm_up() const {
    constexpr std::size_t kBitReservoir = 48;      // of MP3: up to 511 bytes, and packets have 10 or more
    constexpr std::int64_t kOpusSamples = 96'000;  // of what came before, half is left after each 20 ms
    constexpr std::int64_t kOpusShortest = 120;
    constexpr int kLowComplexity = 1;  // others predict, or add high frequencies
    constexpr std::int64_t kAacFrame = 1024;
    switch (packets_.parameters().codec_id) {
        case AV_CODEC_ID_AAC:
            return profile_ == kLowComplexity && pieces_.back().decoded == kAacFrame ? 4 : kAllPackets;
        case AV_CODEC_ID_VORBIS:
            return 2;
        case AV_CODEC_ID_MP3:
            return kBitReservoir;
        case AV_CODEC_ID_OPUS:
            return static_cast<std::size_t>(
                kOpusSamples /
                std::max(kOpusShortest, std::ranges::min_element(pieces_, {}, &Piece::decoded)->decoded));
        case AV_CODEC_ID_AC3:  // these have noise
        case AV_CODEC_ID_MP1:
        case AV_CODEC_ID_MP2:
            return kAllPackets;
        default:
            return 0;
    }
}

void FfmpegSound::read(std::int64_t begin, std::int64_t count, float* const* out) {
    const std::int64_t end = begin + count;
    const auto wanted = std::ranges::upper_bound(pieces_, begin, {}, &Piece::end);
    if (wanted == pieces_.end() || end > samples_ || count <= 0) {
        refuse("a part that the sound lacks");
    }
    const std::size_t first = wanted->packet;
    const std::size_t start = first - std::min(first, warm_up_);
    auto next = std::ranges::lower_bound(pieces_, start, {}, &Piece::packet);
    std::int64_t at = begin;
    decode(start, [&](std::size_t number, const AVFrame* frame) {
        // The packet before the first wanted one overlaps with it.
        const bool damaged = frame == nullptr || frame->decode_error_flags != 0 ||
                             (frame->flags & AV_FRAME_FLAG_CORRUPT) != 0 || !has_format(*frame);
        if (damaged && number + 1 >= first) {
            refuse_damage(at);
        }
        while (next != pieces_.end() && next->packet < number) {
            ++next;
        }
        if (frame == nullptr || next == pieces_.end() || next->packet != number) {
            return true;
        }
        const Piece& piece = *next++;
        if (piece.end() <= begin || piece.from == piece.to) {
            return true;
        }
        if (piece.decoded != frame->nb_samples || piece.begin > at) {
            refuse_damage(at);
        }
        const std::int64_t from = piece.from + at - piece.begin;
        const std::int64_t to = piece.from + std::min(piece.end(), end) - piece.begin;
        if (!libav::copy_samples(*frame, from, to, out, at - begin)) {
            refuse("samples of an unknown format");
        }
        at += to - from;
        return at < end;
    });
    if (at < end) {
        refuse_damage(at);
    }
}

namespace {

FfmpegSound* open_sound(const std::uint8_t* bytes, std::size_t size, FfmpegText* error) {
    std::unique_ptr<FfmpegSound> sound;
    libav::guarded(error, [&] { sound = std::make_unique<FfmpegSound>(bytes, size); });
    return sound.release();
}

void sound_info(const FfmpegSound* sound, FfmpegSoundInfo* info) {
    *info = sound->info();
}

bool read_sound(FfmpegSound* sound, std::int64_t begin, std::int64_t count, float* const* out, FfmpegText* error) {
    return libav::guarded(error, [&] { sound->read(begin, count, out); });
}

void close_sound(FfmpegSound* sound) {
    delete sound;
}

}  // namespace

void add_sound_functions(FfmpegApi& api) {
    api.open_sound = open_sound;
    api.sound_info = sound_info;
    api.read_sound = read_sound;
    api.close_sound = close_sound;
}

}  // namespace stoker
