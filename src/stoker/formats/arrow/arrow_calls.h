// Calls into the module of Apache Arrow: bytes of shards for it, its errors as ours, and the release of its columns.
#pragma once

#include <cstdint>
#include <exception>
#include <string>
#include <utility>

#include "stoker/base/error.h"
#include "stoker/base/memory_limit.h"
#include "stoker/formats/arrow/arrow_api.h"
#include "stoker/formats/arrow/arrow_type.h"

namespace stoker {

// An exception of a read that the module asked for; the module knows only that it failed.
inline thread_local std::exception_ptr arrow_read_error;

// Calls `call(&error)`. If it returns false, throws the exception of the read that failed, else IoError for too little
// memory, else DataError with `path`.
template <typename Call>
void call_arrow(const std::string& path, Call call) {
    ArrowText error;
    arrow_read_error = nullptr;
    if (call(&error)) {
        return;
    }
    if (arrow_read_error != nullptr) {
        std::rethrow_exception(std::exchange(arrow_read_error, nullptr));
    }
    if (error.out_of_memory) {
        throw IoError({.where = path,  // the data may be good
                       .expected = "columns that fit into half of the memory",
                       .got = "larger ones",
                       .hint = "write the file with smaller row groups"});
    }
    throw DataError({.path = path}, {.where = "arrow", .expected = "a valid file", .got = error.text});
}

// Memory that the module may allocate at a time.
inline std::int64_t most_arrow_memory() {
    return static_cast<std::int64_t>(memory_limit().total / 2);
}

// Owns a structure of the C data interface: ArrowSchema, ArrowArray or ArrowArrayStream.
template <typename Structure>
class ArrowOwned {
  public:
    ArrowOwned() = default;
    ArrowOwned(ArrowOwned&& other) noexcept : held_(std::exchange(other.held_, {})) {}
    ArrowOwned& operator=(ArrowOwned&& other) noexcept {
        std::swap(held_, other.held_);
        return *this;
    }
    ArrowOwned(const ArrowOwned&) = delete;
    ArrowOwned& operator=(const ArrowOwned&) = delete;
    ~ArrowOwned() {
        if (held_.release != nullptr) {
            held_.release(&held_);
        }
    }
    Structure* get() { return &held_; }
    const Structure& operator*() const { return held_; }
    const Structure* operator->() const { return &held_; }

  private:
    Structure held_{};
};

}  // namespace stoker
