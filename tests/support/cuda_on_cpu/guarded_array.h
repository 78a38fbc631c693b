// An array that ends where a page begins that cannot be touched, and begins after one: an access outside ends the
// process, also without a sanitizer. Behind the last value up to 15 bytes may remain, which ASan knows.
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstring>
#include <new>
#include <span>
#include <vector>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#else
#define ASAN_POISON_MEMORY_REGION(address, bytes) (static_cast<void>(address), static_cast<void>(bytes))
#define ASAN_UNPOISON_MEMORY_REGION(address, bytes) (static_cast<void>(address), static_cast<void>(bytes))
#endif

namespace stoker::testing {

template <typename T>
class GuardedArray {
  public:
    // Every byte is 0xFF: NaN, if the values are floats. Aligned to 16 bytes, as a vector load needs.
    explicit GuardedArray(std::size_t size) : size_(size) {
        const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
        const std::size_t room = (bytes() + 15) / 16 * 16;
        const std::size_t inside = (room + page - 1) / page * page;
        mapped_ = inside + 2 * page;
        void* const map = ::mmap(nullptr, mapped_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (map == MAP_FAILED) {
            throw std::bad_alloc();
        }
        map_ = static_cast<std::byte*>(map);
        ::mprotect(map_ + page, inside, PROT_READ | PROT_WRITE);
        data_ = map_ + page + inside - room;
        std::memset(map_ + page, 0xFF, inside);
        ASAN_POISON_MEMORY_REGION(data_ + bytes(), room - bytes());
    }
    explicit GuardedArray(const std::vector<T>& values) : GuardedArray(values.size()) {
        std::memcpy(data_, values.data(), bytes());
    }
    GuardedArray(const GuardedArray&) = delete;
    GuardedArray& operator=(const GuardedArray&) = delete;
    ~GuardedArray() {
        ASAN_UNPOISON_MEMORY_REGION(data_, (bytes() + 15) / 16 * 16);
        ::munmap(map_, mapped_);
    }

    T* data() { return reinterpret_cast<T*>(data_); }
    std::size_t size() const { return size_; }
    std::size_t bytes() const { return size_ * sizeof(T); }
    T& operator[](std::size_t i) { return data()[i]; }
    std::vector<T> values() { return {data(), data() + size_}; }

  private:
    std::size_t size_;
    std::size_t mapped_ = 0;
    std::byte* map_ = nullptr;
    std::byte* data_ = nullptr;
};

}  // namespace stoker::testing
