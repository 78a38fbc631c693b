// The exports' errors, memory and bytes as Apache Arrow's classes. Included by arrow_module.cpp alone.
#pragma once

#include <arrow/api.h>
#include <arrow/io/api.h>
#include <parquet/exception.h>
#include <parquet/properties.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <exception>
#include <limits>
#include <memory>
#include <new>
#include <string>
#include <utility>

#include "stoker/formats/arrow/arrow_api.h"

namespace stoker::arrow_io {

[[noreturn]] inline void refuse(const std::string& what) {
    throw parquet::ParquetException(what);
}

inline void check(const arrow::Status& status) {
    if (status.IsOutOfMemory()) {
        throw std::bad_alloc();
    }
    if (!status.ok()) {
        refuse(status.message());
    }
}

template <typename Value>
Value take(arrow::Result<Value> result) {
    check(result.status());
    return std::move(result).ValueUnsafe();
}

// Writes the reason of an exception of `body` into `error`.
template <typename Body>
bool guarded(ArrowText* error, Body body) {
    try {
        body();
        return true;
    } catch (const std::bad_alloc&) {
        error->out_of_memory = true;
    } catch (const parquet::ParquetStatusException& failed) {
        error->out_of_memory = failed.status().IsOutOfMemory();
        std::strncpy(error->text, failed.what(), sizeof error->text - 1);
    } catch (const std::exception& failed) {
        std::strncpy(error->text, failed.what(), sizeof error->text - 1);
    }
    return false;
}

// A page's header may claim any size, so the memory that is not freed has a limit, and a thread may limit the size of
// one piece.
class LimitedPool final : public arrow::MemoryPool {
  public:
    arrow::Status Allocate(std::int64_t size, std::int64_t alignment, std::uint8_t** out) override {
        ARROW_RETURN_NOT_OK(room(size, size));
        return inner_->Allocate(size, alignment, out);
    }
    arrow::Status Reallocate(std::int64_t old_size, std::int64_t size, std::int64_t alignment,
                             std::uint8_t** memory) override {
        ARROW_RETURN_NOT_OK(room(size, size - old_size));
        return inner_->Reallocate(old_size, size, alignment, memory);
    }
    void Free(std::uint8_t* memory, std::int64_t size, std::int64_t alignment) override {
        inner_->Free(memory, size, alignment);
    }
    std::int64_t bytes_allocated() const override { return inner_->bytes_allocated(); }
    std::int64_t max_memory() const override { return inner_->max_memory(); }
    std::int64_t total_bytes_allocated() const override { return inner_->total_bytes_allocated(); }
    std::int64_t num_allocations() const override { return inner_->num_allocations(); }
    std::string backend_name() const override { return inner_->backend_name(); }

    void limit(std::int64_t most) { most_ = most; }

    inline static thread_local std::int64_t largest_piece = std::numeric_limits<std::int64_t>::max();

  private:
    arrow::Status room(std::int64_t size, std::int64_t more) const {
        if (size > largest_piece) {
            return arrow::Status::Invalid("a buffer of ", size,
                                          " bytes, more than the file's compressed bytes can hold");
        }
        return inner_->bytes_allocated() + more <= most_ ? arrow::Status::OK() : arrow::Status::OutOfMemory("");
    }

    arrow::MemoryPool* inner_ = arrow::system_memory_pool();
    std::atomic<std::int64_t> most_ = 0;
};

// Never destroyed: arrays that were handed over free their memory through it.
inline LimitedPool& pool() {
    static auto* const pool = new LimitedPool;
    return *pool;
}

inline parquet::ReaderProperties page_properties() {
    parquet::ReaderProperties properties(&pool());
    properties.set_page_checksum_verification(true);
    return properties;
}

inline arrow::Status read_bytes(const ArrowBytes& bytes, std::uint64_t offset, std::uint8_t* out, std::uint64_t size) {
    if (offset > bytes.size || size > bytes.size - offset) {
        return arrow::Status::IOError("the file ends before");
    }
    if (size == 0) {
        return arrow::Status::OK();
    }
    if (bytes.map != nullptr) {
        std::memcpy(out, bytes.map + offset, size);
        return arrow::Status::OK();
    }
    return bytes.read(bytes.user, offset, out, size) ? arrow::Status::OK() : arrow::Status::IOError("read");
}

inline arrow::Result<std::shared_ptr<arrow::Buffer>> buffer_of(const ArrowBytes& bytes, std::uint64_t offset,
                                                               std::uint64_t size) {
    if (offset > bytes.size || size > bytes.size - offset) {
        return arrow::Status::IOError("the file ends before");
    }
    if (bytes.map != nullptr) {
        return std::make_shared<arrow::Buffer>(bytes.map + offset, static_cast<std::int64_t>(size));
    }
    ARROW_ASSIGN_OR_RAISE(auto buffer, arrow::AllocateBuffer(static_cast<std::int64_t>(size), &pool()));
    ARROW_RETURN_NOT_OK(read_bytes(bytes, offset, buffer->mutable_data(), size));
    return std::shared_ptr<arrow::Buffer>(std::move(buffer));
}

// The bytes of [begin, end), in order.
class BytesStream final : public arrow::io::InputStream {
  public:
    BytesStream(const ArrowBytes& bytes, std::uint64_t begin, std::uint64_t end)
        : bytes_(bytes), place_(begin), end_(std::min(end, bytes.size)) {}

    std::uint64_t peeked_at() const { return peeked_at_; }
    // The next bytes that are read as a buffer are only passed: InputStream::Advance reads them so.
    void skip_next() { skip_ = true; }

    arrow::Status Close() override { return arrow::Status::OK(); }
    bool closed() const override { return false; }
    arrow::Result<std::int64_t> Tell() const override { return static_cast<std::int64_t>(place_); }
    arrow::Result<std::int64_t> Read(std::int64_t size, void* out) override {
        const std::uint64_t count = left(size);
        ARROW_RETURN_NOT_OK(read_bytes(bytes_, place_, static_cast<std::uint8_t*>(out), count));
        place_ += count;
        return static_cast<std::int64_t>(count);
    }
    arrow::Result<std::shared_ptr<arrow::Buffer>> Read(std::int64_t size) override {
        const std::uint64_t count = left(size);
        ARROW_ASSIGN_OR_RAISE(auto buffer, buffer_of(bytes_, place_, skip_ ? 0 : count));
        place_ += count;
        skip_ = false;
        return buffer;
    }
    arrow::Result<std::string_view> Peek(std::int64_t size) override {
        peeked_at_ = place_;
        ARROW_ASSIGN_OR_RAISE(peeked_, buffer_of(bytes_, place_, left(size)));
        return std::string_view(reinterpret_cast<const char*>(peeked_->data()),
                                static_cast<std::size_t>(peeked_->size()));
    }
    bool supports_zero_copy() const override { return bytes_.map != nullptr; }

  private:
    std::uint64_t left(std::int64_t size) const {
        return std::min(static_cast<std::uint64_t>(std::max<std::int64_t>(size, 0)), end_ - std::min(place_, end_));
    }

    ArrowBytes bytes_;
    std::uint64_t place_;
    std::uint64_t end_;
    std::uint64_t peeked_at_ = 0;
    bool skip_ = false;
    std::shared_ptr<arrow::Buffer> peeked_;
};

// Random access to all bytes, for readers that want a file.
class BytesFile final : public arrow::io::RandomAccessFile {
  public:
    explicit BytesFile(const ArrowBytes& bytes) : bytes_(bytes) {}

    arrow::Status Close() override { return arrow::Status::OK(); }
    bool closed() const override { return false; }
    arrow::Result<std::int64_t> Tell() const override { return place_; }
    arrow::Status Seek(std::int64_t place) override {
        place_ = place;
        return arrow::Status::OK();
    }
    arrow::Result<std::int64_t> GetSize() override { return static_cast<std::int64_t>(bytes_.size); }
    arrow::Result<std::int64_t> ReadAt(std::int64_t offset, std::int64_t size, void* out) override {
        const std::uint64_t count = left(offset, size);
        ARROW_RETURN_NOT_OK(
            read_bytes(bytes_, static_cast<std::uint64_t>(offset), static_cast<std::uint8_t*>(out), count));
        return static_cast<std::int64_t>(count);
    }
    arrow::Result<std::shared_ptr<arrow::Buffer>> ReadAt(std::int64_t offset, std::int64_t size) override {
        return buffer_of(bytes_, static_cast<std::uint64_t>(offset), left(offset, size));
    }
    arrow::Result<std::int64_t> Read(std::int64_t size, void* out) override {
        ARROW_ASSIGN_OR_RAISE(const std::int64_t count, ReadAt(place_, size, out));
        place_ += count;
        return count;
    }
    arrow::Result<std::shared_ptr<arrow::Buffer>> Read(std::int64_t size) override {
        ARROW_ASSIGN_OR_RAISE(auto buffer, ReadAt(place_, size));
        place_ += buffer->size();
        return buffer;
    }
    bool supports_zero_copy() const override { return bytes_.map != nullptr; }

  private:
    std::uint64_t left(std::int64_t offset, std::int64_t size) const {
        const auto at = static_cast<std::uint64_t>(std::max<std::int64_t>(offset, 0));
        return std::min(static_cast<std::uint64_t>(std::max<std::int64_t>(size, 0)),
                        bytes_.size - std::min(at, bytes_.size));
    }

    ArrowBytes bytes_;
    std::int64_t place_ = 0;
};

}  // namespace stoker::arrow_io
