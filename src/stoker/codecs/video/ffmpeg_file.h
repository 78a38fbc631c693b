// Private to libstoker_ffmpeg.so: a file in memory that libavformat reads, owners of FFmpeg's objects, and the errors
// that its functions return.
#pragma once

extern "C" {
#include <libavcodec/avcodec.h>
#include <libavformat/avformat.h>
}

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <exception>
#include <memory>
#include <new>
#include <string>
#include <utility>

#include "stoker/codecs/video/ffmpeg_api.h"

namespace stoker::libav {

template <auto free>
struct Free {
    template <typename T>
    void operator()(T* object) const {
        free(&object);
    }
};
using Packet = std::unique_ptr<AVPacket, Free<av_packet_free>>;
using Frame = std::unique_ptr<AVFrame, Free<av_frame_free>>;
using Format = std::unique_ptr<AVFormatContext, Free<avformat_close_input>>;
using Decoder = std::unique_ptr<AVCodecContext, Free<avcodec_free_context>>;

// Why a file cannot be decoded.
struct Reason {
    std::string text;
};

[[noreturn]] inline void refuse(std::string text) {
    throw Reason{std::move(text)};
}

inline void check(int status, const char* what) {
    if (status == AVERROR(ENOMEM)) {
        throw std::bad_alloc();
    }
    if (status < 0) {
        char text[AV_ERROR_MAX_STRING_SIZE] = "";
        av_strerror(status, text, sizeof text);
        refuse(std::string(what) + ": " + text);
    }
}

// False, with the reason, if `run` throws: exceptions do not leave the library.
template <typename Run>
bool guarded(FfmpegText* error, const Run& run) {
    try {
        run();
        return true;
    } catch (const Reason& reason) {
        std::snprintf(error->text, sizeof error->text, "%s", reason.text.c_str());
    } catch (const std::bad_alloc&) {
        error->out_of_memory = true;
    } catch (const std::exception& other) {
        std::snprintf(error->text, sizeof error->text, "%s", other.what());
    }
    return false;
}

// Bytes that outlive it.
class InputFile {
  public:
    InputFile(const std::uint8_t* data, std::size_t size) : data_(data), size_(size) {}
    InputFile(const InputFile&) = delete;
    InputFile& operator=(const InputFile&) = delete;

    // Opens the file from its beginning, again if it was open. `flags`: AVFMT_FLAG_...
    AVFormatContext* open(int flags) {
        constexpr int kBuffer = 1 << 16;
        format_.reset();
        at_ = 0;
        auto* buffer = static_cast<std::uint8_t*>(av_malloc(kBuffer));
        input_.reset(avio_alloc_context(buffer, kBuffer, 0, this, read, nullptr, seek));
        AVFormatContext* format = avformat_alloc_context();
        format->pb = input_.get();
        format->format_whitelist = av_strdup(kDemuxers);
        format->flags |= flags;
        check(avformat_open_input(&format, nullptr, nullptr, nullptr), "the file");  // frees it where it fails
        format_.reset(format);
        return format;
    }

    // Packets of other streams are not read from now on.
    void choose(const AVStream& stream) {
        for (unsigned i = 0; i < format_->nb_streams; ++i) {
            AVStream* const other = format_->streams[i];
            other->discard = other == &stream ? AVDISCARD_DEFAULT : AVDISCARD_ALL;
        }
    }

  private:
    struct FreeInput {
        void operator()(AVIOContext* input) const {
            av_freep(&input->buffer);
            avio_context_free(&input);
        }
    };

    static int read(void* opaque, std::uint8_t* out, int size) {
        auto& file = *static_cast<InputFile*>(opaque);
        const std::size_t count = std::min(static_cast<std::size_t>(size), file.size_ - file.at_);
        if (count == 0) {
            return AVERROR_EOF;
        }
        std::memcpy(out, file.data_ + file.at_, count);
        file.at_ += count;
        return static_cast<int>(count);
    }

    static std::int64_t seek(void* opaque, std::int64_t offset, int whence) {
        auto& file = *static_cast<InputFile*>(opaque);
        const auto size = static_cast<std::int64_t>(file.size_);
        whence &= ~AVSEEK_FORCE;
        if (whence == AVSEEK_SIZE) {
            return size;
        }
        const std::int64_t from = whence == SEEK_SET   ? 0
                                  : whence == SEEK_CUR ? static_cast<std::int64_t>(file.at_)
                                                       : size;
        if (offset < -from || offset > size - from) {
            return AVERROR(EINVAL);
        }
        file.at_ = static_cast<std::size_t>(from + offset);
        return from + offset;
    }

    // None of these opens a second file or a network.
    static constexpr const char* kDemuxers = "mov,mp4,m4a,3gp,3g2,mj2,matroska,webm,avi";

    const std::uint8_t* data_;
    std::size_t size_;
    std::size_t at_ = 0;
    std::unique_ptr<AVIOContext, FreeInput> input_;
    Format format_;  // closed before the input that it reads
};

}  // namespace stoker::libav
