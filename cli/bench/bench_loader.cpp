// The ops are built from OpSpecs as a recipe's are, so that `stoker show` can draw the same samples.
#include "cli/bench/bench_loader.h"

#include "cli/terminal/signals.h"
#include "stoker/pipeline/recipe_data.h"

namespace stoker::cli {
namespace {

Transform training_transform(const BenchLoaderOptions& options) {
    const std::string where = "bench pipeline";
    return Transform(
        std::vector<OpSpec>{
            {.name = "random_resized_crop", .options = {{"size", static_cast<double>(options.size)}}, .where = where},
            {.name = "horizontal_flip", .options = {}, .where = where},
            {.name = "normalize", .options = {{"preset", "imagenet"}}, .where = where}},
        {.decode = options.decode == "fast" ? DecodeMode::fast : DecodeMode::exact});
}

LoaderOptions loader_options(const Dataset& dataset, const BenchLoaderOptions& options) {
    return {.batch_size = options.batch,
            .workers = options.workers.value_or(auto_workers(/*on_gpu=*/false)),
            .prefetch = options.prefetch,
            .drop_last = dataset.size() >= options.batch};  // full batches only, if there are enough samples
}

}  // namespace

BenchLoader::BenchLoader(const std::shared_ptr<const Dataset>& dataset, const BenchLoaderOptions& options)
    : prefetch_(options.prefetch),
      loader_(dataset, training_transform(options), loader_options(*dataset, options)),
      first_(next()),
      first_seconds_(std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count()) {}

std::int64_t BenchLoader::consume(std::int64_t count) {
    std::int64_t images = 0;
    for (std::int64_t i = 0; i < count; ++i) {
        check_interrupt();
        images += next()->size();
    }
    return images;
}

std::shared_ptr<Batch> BenchLoader::next() {
    std::shared_ptr<Batch> batch = loader_.next();
    return batch != nullptr ? batch : loader_.next();  // null only at the end of an epoch
}

}  // namespace stoker::cli
