// All cores draw the split into memory; it is then written at once.
#include "cli/commands/mnist_files.h"

#include <cstring>

#include "cli/terminal/parallel.h"
#include "cli/terminal/signals.h"
#include "stoker/base/error.h"
#include "stoker/formats/idx_cifar/idx_file.h"

namespace stoker::cli {

void write_mnist_split(const Dataset& dataset, Split split, const std::filesystem::path& folder,
                       ProgressBar& progress) {
    const std::int64_t count = dataset.size();
    Sample first;
    dataset.read(0, first);
    const auto size = static_cast<std::int64_t>(first.bytes.size());
    Buffer pixels(static_cast<std::size_t>(count * size));
    Buffer labels(static_cast<std::size_t>(count));
    const bool train = split == Split::train;
    const RangeWork range{
        .label = train ? "training images" : "test images", .unit = "images", .count = count, .grain = 256};
    run_parallel(range, progress, [&](std::int64_t begin, std::int64_t end) {
        check_interrupt();
        Sample sample;
        for (std::int64_t i = begin; i < end; ++i) {
            dataset.read(i, sample);
            std::memcpy(pixels.data() + i * size, sample.bytes.data(), static_cast<std::size_t>(size));
            labels.data()[i] = static_cast<std::byte>(sample.label);
        }
    });
    const std::string stem = (folder / (train ? "train" : "t10k")).string();
    write_idx(stem + "-images-idx3-ubyte", {pixels.data(), DType::uint8, {count, first.height, first.width}});
    write_idx(stem + "-labels-idx1-ubyte", {labels.data(), DType::uint8, {count}});
}

}  // namespace stoker::cli
