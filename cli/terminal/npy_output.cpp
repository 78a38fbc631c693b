#include "cli/terminal/npy_output.h"

#include <array>
#include <bit>
#include <span>
#include <string>

#include "stoker/base/error.h"
#include "stoker/base/file.h"
#include "stoker/formats/arrays/npz_writer.h"

namespace stoker::cli {

static_assert(std::endian::native == std::endian::little, "\"<f4\" is little-endian");

void write_npy(const std::filesystem::path& path, const TensorView& tensor) {
    if (tensor.dtype != DType::uint8 && tensor.dtype != DType::float32) {
        throw InvalidArgument(
            {.where = "npy", .expected = "uint8 or float32", .got = std::string(dtype_name(tensor.dtype))});
    }
    const std::string header = npy_header(tensor.dtype == DType::uint8 ? "|u1" : "<f4", tensor.shape);
    const std::array<std::span<const std::byte>, 2> pieces = {as_bytes(header),
                                                              std::span<const std::byte>(tensor.data, tensor.bytes())};
    write_file(path, pieces);
}

}  // namespace stoker::cli
