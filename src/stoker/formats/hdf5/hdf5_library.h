// RAII for the HDF5 C library: one lock around all calls, ids that close themselves, exceptions instead of messages on
// stderr. Include it in .cpp files and internal headers only, because it includes hdf5.h.
#pragma once

// Newer releases of HDF5 then offer the functions of 1.10.
#define H5_USE_110_API
#include <hdf5.h>

#include <mutex>
#include <string>
#include <string_view>
#include <vector>

namespace stoker {

// Hold it for every call: Debian's build of the library is not thread-safe, and other builds have one lock of their
// own. Recursive. While it is held, the library prints nothing.
class Hdf5Lock {
  public:
    Hdf5Lock();
    Hdf5Lock(const Hdf5Lock&) = delete;
    Hdf5Lock& operator=(const Hdf5Lock&) = delete;
    ~Hdf5Lock();

  private:
    std::unique_lock<std::recursive_mutex> lock_;
    H5E_auto2_t printer_ = nullptr;
    void* printer_data_ = nullptr;
};

class Hdf5Id {
  public:
    using Close = herr_t (*)(hid_t);

    Hdf5Id() = default;
    // Throws DataError with the library's reason if `id` is negative: the call that returned it failed.
    Hdf5Id(hid_t id, Close closer, const std::string& path, std::string_view expected);
    Hdf5Id(Hdf5Id&& other) noexcept;
    Hdf5Id& operator=(Hdf5Id&& other) noexcept;
    Hdf5Id(const Hdf5Id&) = delete;
    Hdf5Id& operator=(const Hdf5Id&) = delete;
    ~Hdf5Id();

    hid_t get() const { return id_; }

    // Returns a negative value on failure.
    herr_t close();

  private:
    hid_t id_ = H5I_INVALID_HID;
    Close close_ = nullptr;
};

// The innermost error of the last failed call, such as "unable to load heap (H5HG_read)". Clears the error stack.
std::string hdf5_reason();

// Throws a DataError: `expected`, but the library's reason.
[[noreturn]] void fail_hdf5(const std::string& path, std::string_view expected);

// Throws as fail_hdf5 does if `status` is negative; otherwise returns it.
template <typename Status>
Status check_hdf5(Status status, const std::string& path, std::string_view expected) {
    if (status < 0) {
        fail_hdf5(path, expected);
    }
    return status;
}

// Opens a file for reading, without the library's file lock, which fails on many network and read-only file systems.
Hdf5Id open_hdf5(const std::string& path);

// The address of the object's header; of a file: its root group's.
std::uint64_t hdf5_header_of(const Hdf5Id& object, const std::string& path);

// The names of all datasets, such as "group/name", sorted. Links to other files and dangling links are not followed.
// Throws Unsupported beyond 10,000 datasets: a file with one array for each image.
std::vector<std::string> list_hdf5(const Hdf5Id& file, const std::string& path);

// The first link to another file, as "images, a link to /x of other.h5"; empty if there is none.
std::string find_external_link(const Hdf5Id& file, const std::string& path);

}  // namespace stoker
