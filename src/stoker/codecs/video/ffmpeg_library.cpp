// libstoker_ffmpeg.so: videos through FFmpeg's libavformat, libavcodec and libswscale. A file is scanned once for the
// times of its frames; frames are then found from the key frame before them, and frames in between that no other frame
// refers to are not decoded.
extern "C" {
#include <libavutil/display.h>
#include <libavutil/imgutils.h>
#include <libswscale/swscale.h>
}

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <iterator>
#include <memory>
#include <new>
#include <string>
#include <vector>

#include "stoker/codecs/video/ffmpeg_api.h"
#include "stoker/codecs/video/ffmpeg_file.h"
#include "stoker/codecs/video/ffmpeg_sound.h"

namespace {

using stoker::FfmpegText;
using stoker::libav::check;
using stoker::libav::Decoder;
using stoker::libav::Frame;
using stoker::libav::guarded;
using stoker::libav::InputFile;
using stoker::libav::Packet;
using stoker::libav::refuse;

constexpr std::int64_t kMostPixels = std::int64_t{1} << 28;
constexpr std::size_t kMostFrames = std::size_t{1} << 26;

struct FreeScaler {
    void operator()(SwsContext* scaler) const { sws_freeContext(scaler); }
};

// A frame's packet; times are those of the stream.
struct Coded {
    std::int64_t shown = 0;  // pts
    std::int64_t read = 0;   // dts
    bool key = false;
};

std::int64_t time_of(const AVPacket& packet, std::int64_t number) {
    return packet.pts != AV_NOPTS_VALUE ? packet.pts : packet.dts != AV_NOPTS_VALUE ? packet.dts : number;
}

}  // namespace

namespace stoker {

struct FfmpegVideo {
  public:
    FfmpegVideo(const std::uint8_t* bytes, std::size_t size) : file_(bytes, size) {
        open_file();
        const AVCodecParameters& codec = *stream_->codecpar;
        const bool known = codec.width > 0 && codec.extradata_size > 0;
        if (!known || !list_frames()) {  // a look at some frames tells the rest; it works once, on an unread file
            open_file();
            check(avformat_find_stream_info(format_, nullptr), "the video's parameters");
            list_frames();
        }
        order_frames();
        open_decoder();
    }

    FfmpegInfo info() const {
        const AVCodecParameters& codec = *stream_->codecpar;
        FfmpegInfo info{.width = codec.width,
                        .height = codec.height,
                        .frames = static_cast<std::int64_t>(shown_.size()),
                        .seconds = 0,
                        .codec = avcodec_get_name(codec.codec_id)};
        if (turns_ % 2 != 0) {
            std::swap(info.width, info.height);
        }
        const std::int64_t span = shown_.back() - shown_.front();
        info.seconds = static_cast<double>(span) * av_q2d(stream_->time_base);
        return info;
    }

    template <typename Take>
    void decode(const std::int64_t* frames, std::size_t count, Take take) {
        std::size_t next = 0;
        while (next < count) {
            const std::size_t before = next;
            decode_from_key(frames, count, next, take);
            if (next == before) {
                refuse("frame " + std::to_string(frames[next]) + " cannot be decoded");
            }
        }
    }

  private:
    void open_file() {
        format_ = file_.open(AVFMT_FLAG_GENPTS);
        const int number = av_find_best_stream(format_, AVMEDIA_TYPE_VIDEO, -1, -1, nullptr, 0);
        if (number < 0) {
            refuse("no video in the file");
        }
        stream_ = format_->streams[number];
        file_.choose(*stream_);
        turns_ = turns_of(*stream_);
    }

    // Quarter turns clockwise that a player makes.
    static int turns_of(const AVStream& stream) {
        const std::int32_t* matrix = nullptr;
#if LIBAVCODEC_VERSION_INT >= AV_VERSION_INT(60, 31, 102)
        if (const auto* found = av_packet_side_data_get(
                stream.codecpar->coded_side_data, stream.codecpar->nb_coded_side_data, AV_PKT_DATA_DISPLAYMATRIX)) {
            matrix = reinterpret_cast<const std::int32_t*>(found->data);
        }
#else
        matrix =
            reinterpret_cast<const std::int32_t*>(av_stream_get_side_data(&stream, AV_PKT_DATA_DISPLAYMATRIX, nullptr));
#endif
        const double angle = matrix != nullptr ? -av_display_rotation_get(matrix) : 0;  // clockwise
        return std::isfinite(angle) ? (static_cast<int>(std::lround(angle / 90)) % 4 + 4) % 4 : 0;
    }

    void open_decoder() {
        const AVCodec* codec = avcodec_find_decoder(stream_->codecpar->codec_id);
        if (codec == nullptr) {
            refuse(std::string("FFmpeg lacks a decoder for ") + avcodec_get_name(stream_->codecpar->codec_id));
        }
        decoder_.reset(avcodec_alloc_context3(codec));
        check(avcodec_parameters_to_context(decoder_.get(), stream_->codecpar), "the decoder");
        decoder_->thread_count = 1;  // workers are threads
        decoder_->max_pixels = kMostPixels;
        decoder_->pkt_timebase = stream_->time_base;
        check(avcodec_open2(decoder_.get(), codec, nullptr), "the decoder");
        // HEVC is left out: its non-reference frames may still be referred to by a higher temporal layer.
        skips_ = codec->id == AV_CODEC_ID_H264 || codec->id == AV_CODEC_ID_MPEG4 || codec->id == AV_CODEC_ID_MPEG2VIDEO;
    }

    // False if packets lack the times at which their frames are shown.
    bool list_frames() {
        coded_.clear();
        shown_.clear();
        bool timed = true;
        const Packet packet(av_packet_alloc());
        std::int64_t number = 0;
        int status = 0;
        for (; (status = av_read_frame(format_, packet.get())) >= 0; av_packet_unref(packet.get())) {
            if (packet->stream_index != stream_->index) {
                continue;
            }
            timed = timed && packet->pts != AV_NOPTS_VALUE;
            const std::int64_t shown = time_of(*packet, number);
            const std::int64_t read = packet->dts != AV_NOPTS_VALUE ? packet->dts : shown;
            ++number;
            coded_.push_back({.shown = shown, .read = read, .key = (packet->flags & AV_PKT_FLAG_KEY) != 0});
            if ((packet->flags & AV_PKT_FLAG_DISCARD) == 0) {
                shown_.push_back(shown);
            }
            if (coded_.size() > kMostFrames) {
                refuse("too many frames");
            }
        }
        if (status != AVERROR_EOF) {
            check(status, "the file");
        }
        return timed;
    }

    void order_frames() {
        std::ranges::sort(shown_);
        shown_.erase(std::unique(shown_.begin(), shown_.end()), shown_.end());
        if (shown_.empty()) {
            refuse("a video without frames");
        }
        std::ranges::copy_if(coded_, std::back_inserter(keys_), &Coded::key);
        std::ranges::stable_sort(keys_, {}, &Coded::shown);
    }

    // The last key frame that is shown no later than `shown`; the first packet where there is none.
    const Coded& key_before(std::int64_t shown) const {
        const auto after = std::ranges::upper_bound(keys_, shown, {}, &Coded::shown);
        return after == keys_.begin() ? coded_.front() : *(after - 1);
    }

    // The next packet is the key frame, or one before it.
    void seek(const Coded& key) {
        avcodec_flush_buffers(decoder_.get());
        if (av_seek_frame(format_, stream_->index, key.read, AVSEEK_FLAG_BACKWARD) < 0) {
            check(av_seek_frame(format_, stream_->index, coded_.front().read, AVSEEK_FLAG_BACKWARD), "a seek");
        }
    }

    // Decodes frames from frames[next] on, up to a frame that is found faster from a later key frame.
    template <typename Take>
    void decode_from_key(const std::int64_t* frames, std::size_t count, std::size_t& next, Take& take) {
        const auto wanted = [&](std::size_t at) { return shown_[static_cast<std::size_t>(frames[at])]; };
        const Coded& key = key_before(wanted(next));
        std::size_t end = next + 1;
        while (end < count && (key_before(wanted(end)).read == key.read || frames[end] <= frames[end - 1] + 2)) {
            ++end;
        }
        seek(key);
        const Packet packet(av_packet_alloc());
        bool drained = false;
        std::int64_t number = 0;
        while (next < end && !drained) {
            av_packet_unref(packet.get());
            const int status = av_read_frame(format_, packet.get());
            if (status == AVERROR_EOF) {
                drained = true;
                check(avcodec_send_packet(decoder_.get(), nullptr), "the end of the video");
            } else {
                check(status, "the file");
                if (packet->stream_index != stream_->index) {
                    continue;
                }
                send(*packet, number++, frames, next, end);
            }
            receive(frames, end, next, take);
        }
    }

    void send(AVPacket& packet, std::int64_t number, const std::int64_t* frames, std::size_t next, std::size_t end) {
        packet.pts = time_of(packet, number);
        const auto* const found = std::lower_bound(
            frames + next, frames + end, packet.pts,
            [&](std::int64_t frame, std::int64_t shown) { return shown_[static_cast<std::size_t>(frame)] < shown; });
        const bool is_wanted = found != frames + end && shown_[static_cast<std::size_t>(*found)] == packet.pts;
        decoder_->skip_frame = is_wanted || !skips_ ? AVDISCARD_DEFAULT : AVDISCARD_NONREF;
        const int status = avcodec_send_packet(decoder_.get(), &packet);
        if (status != AVERROR_INVALIDDATA) {  // a damaged packet shows where its frame is wanted
            check(status, "a packet");
        }
    }

    template <typename Take>
    void receive(const std::int64_t* frames, std::size_t end, std::size_t& next, Take& take) {
        while (next < end) {
            const int status = avcodec_receive_frame(decoder_.get(), frame_.get());
            if (status == AVERROR(EAGAIN) || status == AVERROR_EOF) {
                return;
            }
            check(status, "a frame");
            const std::int64_t wanted = shown_[static_cast<std::size_t>(frames[next])];
            if (frame_->pts == wanted) {
                if (frame_->decode_error_flags != 0 || (frame_->flags & AV_FRAME_FLAG_CORRUPT) != 0) {
                    refuse("frame " + std::to_string(frames[next]) + " is damaged");
                }
                take(next++, to_rgb());
            } else if (frame_->pts > wanted) {
                refuse("frame " + std::to_string(frames[next]) + " is missing");
            }
        }
    }

    FfmpegFrame to_rgb() {
        const AVFrame& from = *frame_;
        const auto format = static_cast<AVPixelFormat>(from.format);
        SwsContext* const scaler =
            sws_getCachedContext(scaler_.release(), from.width, from.height, format, from.width, from.height,
                                 AV_PIX_FMT_RGB24, SWS_BILINEAR, nullptr, nullptr, nullptr);
        scaler_.reset(scaler);
        if (scaler == nullptr) {
            refuse("pixels of a format that cannot be converted");
        }
        const int* const table =
            sws_getCoefficients(from.colorspace == AVCOL_SPC_UNSPECIFIED ? SWS_CS_DEFAULT : from.colorspace);
        sws_setColorspaceDetails(scaler, table, from.color_range == AVCOL_RANGE_JPEG ? 1 : 0, table, 1, 0, 1 << 16,
                                 1 << 16);
        const auto size = static_cast<std::size_t>(from.width) * static_cast<std::size_t>(from.height) * 3;
        rgb_.resize(size);
        std::uint8_t* const planes[] = {rgb_.data(), nullptr, nullptr, nullptr};
        const int strides[] = {from.width * 3, 0, 0, 0};
        check(sws_scale(scaler, from.data, from.linesize, 0, from.height, planes, strides), "the conversion to RGB");
        if (turns_ == 0) {
            return {.rgb = rgb_.data(), .width = from.width, .height = from.height};
        }
        return turned(from.width, from.height);
    }

    FfmpegFrame turned(int width, int height) {
        turned_.resize(rgb_.size());
        const bool upright = turns_ == 2;
        const int out_width = upright ? width : height;
        const int out_height = upright ? height : width;
        for (int y = 0; y < out_height; ++y) {
            for (int x = 0; x < out_width; ++x) {
                const int from_x = turns_ == 1 ? y : turns_ == 2 ? width - 1 - x : width - 1 - y;
                const int from_y = turns_ == 1 ? height - 1 - x : turns_ == 2 ? height - 1 - y : x;
                const std::size_t from = static_cast<std::size_t>(from_y * width + from_x) * 3;
                std::memcpy(&turned_[static_cast<std::size_t>(y * out_width + x) * 3], &rgb_[from], 3);
            }
        }
        return {.rgb = turned_.data(), .width = out_width, .height = out_height};
    }

    InputFile file_;
    AVFormatContext* format_ = nullptr;  // the file's
    AVStream* stream_ = nullptr;
    Decoder decoder_;
    int turns_ = 0;
    bool skips_ = false;               // frames that no other frame refers to are left out
    std::vector<Coded> coded_;         // in the order of the file
    std::vector<Coded> keys_;          // by the times at which they are shown
    std::vector<std::int64_t> shown_;  // the times of the frames that are shown, sorted
    Frame frame_{av_frame_alloc()};
    std::unique_ptr<SwsContext, FreeScaler> scaler_;
    std::vector<std::uint8_t> rgb_;
    std::vector<std::uint8_t> turned_;
};

}  // namespace stoker

namespace {

using stoker::FfmpegVideo;

FfmpegVideo* open(const std::uint8_t* bytes, std::size_t size, FfmpegText* error) {
    std::unique_ptr<FfmpegVideo> video;
    guarded(error, [&] { video = std::make_unique<FfmpegVideo>(bytes, size); });
    return video.release();
}

void info(const FfmpegVideo* video, stoker::FfmpegInfo* info) {
    *info = video->info();
}

bool decode(FfmpegVideo* video, const std::int64_t* frames, std::size_t count,
            bool (*take)(void* user, std::size_t at, const stoker::FfmpegFrame* frame), void* user, FfmpegText* error) {
    return guarded(error, [&] {
        video->decode(frames, count, [&](std::size_t at, const stoker::FfmpegFrame& frame) {
            if (!take(user, at, &frame)) {
                refuse("stopped");
            }
        });
    });
}

void close(FfmpegVideo* video) {
    delete video;
}

}  // namespace

extern "C" __attribute__((visibility("default"))) const stoker::FfmpegApi* stoker_ffmpeg_api() {
    static const stoker::FfmpegApi api = [] {
        av_log_set_level(AV_LOG_QUIET);  // errors are returned
        stoker::FfmpegApi made{
            .version = stoker::kFfmpegApiVersion, .open = open, .info = info, .decode = decode, .close = close};
        stoker::add_sound_functions(made);
        return made;
    }();
    return &api;
}
