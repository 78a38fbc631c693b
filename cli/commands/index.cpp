// stoker index: fills the index of a data set's JPEGs, which training otherwise fills in its first epochs.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <fmt/format.h>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "cli/command.h"
#include "cli/commands/dataset_options.h"
#include "cli/terminal/parallel.h"
#include "cli/terminal/print.h"
#include "cli/terminal/table.h"
#include "stoker/base/pluralize.h"
#include "stoker/base/url_secrets.h"
#include "stoker/codecs/codec.h"
#include "stoker/pipeline/cache/open_jpeg_index.h"
#include "stoker/pipeline/read_sample.h"

namespace stoker::cli {
namespace {

struct IndexArguments {
    std::string data;
    FieldNames fields;
    bool test = false;
    bool json = false;
};

struct Counts {
    std::atomic<std::int64_t> indexed = 0;
    std::atomic<std::int64_t> others = 0;
    std::atomic<std::int64_t> bad = 0;
};

void index_images(const FieldValue& value, Decoder& decoder, JpegIndex& index, Counts& counts) {
    for (const FieldValue& frame : value.frames) {
        index_images(frame, decoder, index, counts);
    }
    if (value.encoded) {
        ++(decoder.index_jpeg(value.bytes, index) ? counts.indexed : counts.others);
    }
}

// Bad samples are counted; `stoker inspect --verify` lists them.
void index_samples(const Dataset& dataset, JpegIndex& index, Counts& counts) {
    ProgressBar progress;
    const RangeWork range{.label = "index", .unit = "samples", .count = dataset.size(), .grain = 16};
    run_parallel(range, progress, [&](std::int64_t begin, std::int64_t end) {
        Sample sample;
        Decoder decoder;
        for (std::int64_t i = begin; i < end; ++i) {
            try {
                read_sample(dataset, i, sample);
                index_images(sample, decoder, index, counts);
                for (const FieldValue& field : sample.fields) {
                    index_images(field, decoder, index, counts);
                }
            } catch (const DataError&) {
                ++counts.bad;
            }
        }
    });
}

int run(const IndexArguments& options) {
    const auto dataset = open_split(options.data, options.test, options.fields);
    const std::shared_ptr<JpegIndex> index = open_jpeg_index(options.data);
    if (index == nullptr) {
        throw IoError({.where = "index",
                       .expected = "a cache folder",
                       .got = "no home folder",
                       .hint = "set STOKER_CACHE to a folder"});
    }
    Counts counts;
    index_samples(*dataset, *index, counts);
    constexpr std::chrono::seconds kMostWait(30);
    if (!index->flush(kMostWait)) {
        const std::string reason = index->stop_reason();
        throw IoError({.where = "index",
                       .expected = "an index that can be written to",
                       .got = reason.empty() ? "one that another process keeps locked" : reason});
    }
    if (options.json) {
        print_document({{"data", shown_url(options.data)},
                        {"file", index->path().string()},
                        {"bytes", index->bytes()},
                        {"images", counts.indexed.load()},
                        {"others", counts.others.load()},
                        {"bad", counts.bad.load()}});
        return 0;
    }
    print_stdout(
        "{}: {} in {}, {:.2f} % of the data's {}\n", shown_url(options.data), pluralize(counts.indexed.load(), "JPEG"),
        byte_text(index->bytes()),
        100.0 * static_cast<double>(index->bytes()) / static_cast<double>(std::max<std::int64_t>(dataset->bytes(), 1)),
        byte_text(dataset->bytes()));
    if (counts.others > 0) {
        print_stdout("  {} without entry points: small, progressive, with restart markers, or no JPEGs\n",
                     pluralize(counts.others.load(), "image"));
    }
    if (counts.bad > 0) {
        print_stdout("  {}: `stoker inspect --verify` lists them\n", pluralize(counts.bad.load(), "bad sample"));
    }
    return 0;
}

}  // namespace

Command add_index(CLI::App& app) {
    auto options = std::make_shared<IndexArguments>();
    app.add_option("data", options->data, "a data set as in recipes")->required();
    add_field_options(app, options->fields);
    add_further_fields_option(app, options->fields);
    add_memory_option(app);
    app.add_flag("--test", options->test, "use the test split instead of the training split");
    app.add_flag("--json", options->json, "one JSON document on stdout instead of the text");
    example(app,
            "  stoker index data/train\n"
            "  stoker index 'shards-{000..031}.tar' --json");
    return [options] { return run(*options); };
}

}  // namespace stoker::cli
