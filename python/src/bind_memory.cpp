// Memory that worker processes fill: a file without a name, mapped here, and arrays in it.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>
#include <sys/mman.h>

#include <array>
#include <fmt/format.h>
#include <memory>
#include <string_view>

#include "python/src/bindings.h"
#include "stoker/base/error.h"

namespace stoker::python {
namespace {

struct ElementType {
    std::string_view name;  // as torch and NumPy call it
    nb::dlpack::dtype_code code;
    std::uint8_t bits;
};

constexpr std::array<ElementType, 15> kElementTypes = {{
    {"bool", nb::dlpack::dtype_code::Bool, 8},
    {"uint8", nb::dlpack::dtype_code::UInt, 8},
    {"uint16", nb::dlpack::dtype_code::UInt, 16},
    {"uint32", nb::dlpack::dtype_code::UInt, 32},
    {"uint64", nb::dlpack::dtype_code::UInt, 64},
    {"int8", nb::dlpack::dtype_code::Int, 8},
    {"int16", nb::dlpack::dtype_code::Int, 16},
    {"int32", nb::dlpack::dtype_code::Int, 32},
    {"int64", nb::dlpack::dtype_code::Int, 64},
    {"float16", nb::dlpack::dtype_code::Float, 16},
    {"bfloat16", nb::dlpack::dtype_code::Bfloat, 16},
    {"float32", nb::dlpack::dtype_code::Float, 32},
    {"float64", nb::dlpack::dtype_code::Float, 64},
    {"complex64", nb::dlpack::dtype_code::Complex, 64},
    {"complex128", nb::dlpack::dtype_code::Complex, 128},
}};

const ElementType& element_type(const std::string& name) {
    for (const ElementType& type : kElementTypes) {
        if (type.name == name) {
            return type;
        }
    }
    throw Unsupported({.where = "dtype", .expected = "a number type that DLPack has", .got = name});
}

class SharedMemory {
  public:
    SharedMemory(int fd, std::size_t bytes) : bytes_(bytes) {
        address_ = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        if (address_ == MAP_FAILED) {
            throw errno_error("shared memory", fmt::format("{} bytes to map", bytes));
        }
    }
    SharedMemory(const SharedMemory&) = delete;
    SharedMemory& operator=(const SharedMemory&) = delete;
    ~SharedMemory() { munmap(address_, bytes_); }

    // `owner` is kept as long as the array, and has to keep this memory. None: the array is a copy.
    nb::object array(std::size_t offset, const std::string& dtype, const std::vector<std::size_t>& shape,
                     nb::handle owner) const {
        const ElementType& type = element_type(dtype);
        std::size_t size = type.bits / 8u;
        for (const std::size_t side : shape) {
            if (__builtin_mul_overflow(size, side, &size)) {
                size = bytes_ + 1;
                break;
            }
        }
        if (offset > bytes_ || size > bytes_ - offset) {
            throw InvalidArgument({.where = "shared memory",
                                   .expected = fmt::format("an array within {} bytes", bytes_),
                                   .got = fmt::format("one from byte {} on", offset)});
        }
        auto* const data = static_cast<std::byte*>(address_) + offset;
        if (!owner.is_none()) {
            return array_at(data, type, shape, owner);
        }
        auto copy = std::make_unique<std::vector<std::byte>>(data, data + size);
        std::byte* const copied = copy->data();
        const nb::capsule own(copy.get(),
                              [](void* bytes) noexcept { delete static_cast<std::vector<std::byte>*>(bytes); });
        copy.release();  // NOLINT(bugprone-unused-return-value): the capsule owns it
        return array_at(copied, type, shape, own);
    }

  private:
    static nb::object array_at(std::byte* data, const ElementType& type, const std::vector<std::size_t>& shape,
                               nb::handle owner) {
        const nb::dlpack::dtype as{static_cast<std::uint8_t>(type.code), type.bits, 1};
        return nb::cast(nb::ndarray<nb::array_api>(data, shape.size(), shape.data(), owner, nullptr, as),
                        nb::rv_policy::reference);
    }

    void* address_ = nullptr;
    std::size_t bytes_;
};

}  // namespace

void bind_memory(nb::module_& module) {
    nb::class_<SharedMemory>(module, "SharedMemory")
        .def(nb::init<int, std::size_t>(), nb::arg("fd"), nb::arg("bytes"))
        .def("array", &SharedMemory::array, nb::arg("offset"), nb::arg("dtype"), nb::arg("shape"),
             nb::arg("owner").none());
}

}  // namespace stoker::python
