// stoker synth: generates data sets of digits or photos. They are written under a temporary name and renamed when
// complete.

#include <atomic>
#include <filesystem>
#include <fmt/format.h>
#include <optional>

#include "cli/command.h"
#include "cli/commands/mnist_files.h"
#include "cli/commands/staged_folder.h"
#include "cli/terminal/parallel.h"
#include "cli/terminal/print.h"
#include "cli/terminal/progress.h"
#include "cli/terminal/signals.h"
#include "stoker/base/file.h"
#include "stoker/base/pluralize.h"
#include "stoker/codecs/encode.h"
#include "stoker/formats/synth/synth_digits.h"
#include "stoker/formats/synth/synth_photos.h"

namespace stoker::cli {
namespace {

namespace fs = std::filesystem;

struct SynthArguments {
    std::string kind;
    std::string target;
    std::optional<std::int64_t> count;
    std::int64_t seed = 0;
};

std::string make_digits(const SynthArguments& options, const fs::path& folder, ProgressBar& progress) {
    const std::int64_t count = options.count.value_or(kSynthDigitsTrain);
    const std::int64_t test = std::max<std::int64_t>(count / 6, 1);
    const auto seed = static_cast<std::uint64_t>(options.seed);
    write_mnist_split(*make_synth_digits(Split::train, count, seed), Split::train, folder, progress);
    write_mnist_split(*make_synth_digits(Split::test, test, seed), Split::test, folder, progress);
    return fmt::format("{} training and {} test images of 28 x 28", with_commas(static_cast<double>(count)),
                       with_commas(static_cast<double>(test)));
}

// Mostly baseline 4:2:0, as cameras write; every fifth is 4:4:4 and every tenth progressive, for the other decoder
// paths.
JpegOptions photo_kind(std::int64_t number) {
    return {.quality = 90, .chroma_420 = number % 5 != 2, .progressive = number % 10 == 9};
}

std::string make_photos(const SynthArguments& options, const fs::path& folder, ProgressBar& progress) {
    constexpr auto kClasses = static_cast<std::int64_t>(kSynthPhotoClasses.size());
    const std::int64_t count = options.count.value_or(800);
    for (std::int64_t label = 0; label < std::min(count, kClasses); ++label) {
        fs::create_directories(folder / kSynthPhotoClasses[static_cast<std::size_t>(label)]);
    }
    std::atomic<std::int64_t> bytes{0};
    const RangeWork range{.label = "photos", .unit = "images", .count = count, .grain = 1};
    run_parallel(range, progress, [&](std::int64_t begin, std::int64_t end) {
        Image image;
        for (std::int64_t i = begin; i < end; ++i) {
            check_interrupt();
            const auto label = static_cast<std::size_t>(i % kClasses);
            const std::int64_t number = i / kClasses;
            draw_synth_photo(number, static_cast<int>(label), static_cast<std::uint64_t>(options.seed), image);
            const std::vector<std::byte> jpeg = encode_jpeg(image.view(), photo_kind(number));
            write_file(folder / kSynthPhotoClasses[label] / fmt::format("{:05}.jpg", number),
                       {reinterpret_cast<const char*>(jpeg.data()), jpeg.size()});
            bytes += static_cast<std::int64_t>(jpeg.size());
        }
    });
    const std::int64_t classes = std::min(count, kClasses);
    return fmt::format("{} in {}, {}", pluralize(count, "image"), pluralize(classes, "class"), byte_text(bytes));
}

int run(const SynthArguments& options) {
    StagedFolder staging(options.target);
    return run_interruptible(
        [&](const std::atomic<int>& /*stop*/) {
            ProgressBar progress;
            const std::string made = options.kind == "digits" ? make_digits(options, staging.path(), progress)
                                                              : make_photos(options, staging.path(), progress);
            check_interrupt();
            staging.commit();
            print_stdout("{}: {}\n", options.target, made);
            return 0;
        },
        "nothing was kept");
}

}  // namespace

Command add_synth(CLI::App& app) {
    auto options = std::make_shared<SynthArguments>();
    constexpr std::int64_t kMaxCount = 10'000'000;
    app.add_option("kind", options->kind, "digits: IDX files like MNIST; photos: a folder of JPEG files for each class")
        ->required()
        ->check(CLI::IsMember({"digits", "photos"}));
    app.add_option("target", options->target, "the folder to create; one with files in it is refused")->required();
    app.add_option("--count", options->count,
                   "number of images; digits: of the training split, the test split gets a sixth of that (default: "
                   "60000 digits, "
                   "800 photos)")
        ->type_name("N")
        ->check(CLI::Range(std::int64_t{1}, kMaxCount));
    app.add_option("--seed", options->seed, "seed of the generated images")->type_name("S")->check(not_negative());
    example(app,
            "  stoker synth digits data/digits\n"
            "  stoker synth photos data/photos --count 2000 --seed 7");
    return [options] { return run(*options); };
}

}  // namespace stoker::cli
