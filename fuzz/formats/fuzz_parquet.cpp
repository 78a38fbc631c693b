// Arbitrary bytes as a Parquet file, or as an Arrow file or stream, by their beginning: as samples, and with each
// stored field. Apache Arrow's own code is not instrumented.
#include "fuzz/formats/sources.h"
#include "stoker/formats/arrow/arrow_batches.h"
#include "stoker/formats/arrow/arrow_dataset.h"
#include "stoker/formats/arrow/parquet_rows.h"

namespace {

stoker::ArrowDataset open(const std::string& path, bool parquet, std::vector<stoker::FieldRequest> more) {
    using namespace stoker;
    std::unique_ptr<ArrowRows> rows;
    if (parquet) {
        rows = std::make_unique<ParquetRows>(path, std::vector{path},
                                             [](const std::string& name) { return open_byte_file(name); });
    } else {
        rows = std::make_unique<ArrowBatches>(path, std::vector{path});
    }
    return {std::move(rows), path, "", {.image = "", .label = "", .more = std::move(more)}, "fuzz"};
}

// A damaged page makes bad samples.
void read_some(const stoker::Dataset& dataset) {
    using namespace stoker;
    static Sample sample;  // reused, as in a worker
    fuzz::require(dataset.size() >= 1);
    for (std::int64_t i = 0; i < std::min<std::int64_t>(dataset.size(), 16); ++i) {
        const std::int64_t index = i % 2 == 0 ? i : dataset.size() - 1 - i;
        sample.wanted = {.count = i % 4, .stride = 2};
        if (index >= 0 && fuzz::succeeds([&] { dataset.read(index, sample); })) {
            fuzz::require(sample.label >= -1 && dataset.label(index).value_or(sample.label) == sample.label);
            fuzz::touch(sample.bytes);
            for (const FieldValue& frame : sample.frames) {
                fuzz::touch(frame.bytes);
            }
        }
    }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    using namespace stoker::fuzz;
    static const Scratch scratch;
    const bool parquet = size >= 4 && std::equal(data, data + 4, "PAR1");
    const std::string path = scratch.write("input", as_input(data, size)).string();
    try {
        succeeds([&] { read_some(open(path, parquet, {})); });
        read_as_fields([&](std::vector<stoker::FieldRequest> more) { return open(path, parquet, std::move(more)); });
    } catch (const stoker::IoError&) {  // a build without pyarrow, or too little memory
    }
    return 0;
}
