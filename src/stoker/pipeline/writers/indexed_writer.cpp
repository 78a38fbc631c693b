#include <cstring>
#include <fmt/format.h>
#include <utility>

#include "stoker/base/error.h"
#include "stoker/pipeline/transforms/gather_ops.h"
#include "stoker/pipeline/writers/writers.h"

namespace stoker {
namespace {

void require_gather(const WriterSetup& setup, const ImageTable& images) {
    const Dataset& dataset = setup.dataset;
    const auto wrong = find_not_gathered(setup.transform.slice(OpRange::remaining));
    if (wrong || images.size() != dataset.size() || !dataset.fields().empty()) {
        throw InvalidArgument({.where = "loader",
                               .expected = fmt::format("images of {} samples without further fields, and ops that a "
                                                       "gather can do",
                                                       dataset.size()),
                               .got = wrong
                                          ? fmt::format("op {}, which {}", wrong->op + 1, wrong->why)
                                          : fmt::format("{}, and {} fields", images.size(), dataset.fields().size())});
    }
}

FieldSpec draws_of(int view, const WriterSetup& setup, const std::shared_ptr<const ImageBlock>& images) {
    const GatherPlan plan = gather_plan(setup.transform.slice(OpRange::remaining), images->size);
    return {.name = view_name(view),
            .shape = {sizeof(GatherDraw)},
            .deferred = DeferredNormalize{.factors = setup.transform.factors(),
                                          .layout = setup.options.layout,
                                          .gather = DeferredGather{.images = images, .ops = plan.ops, .to = plan.to}}};
}

class IndexedWriter final : public SampleWriter {
  public:
    IndexedWriter(const WriterSetup& setup, std::shared_ptr<const ImageTable> images)
        : SampleWriter(setup, [&](int view) { return draws_of(view, setup, images->block()); }),
          images_(std::move(images)) {}

    void write(const SampleTask& task) override {
        task.scratch.sample.label = images_->label(task.index);
        fields_.check_label(task.scratch.sample.label);
        const OpSlice ops = transform_.slice(OpRange::remaining);
        for (int view = 0; view < fields_.views(); ++view) {
            GatherDraw draw = draw_gather(ops, images_->block()->size, key_of_view(task.key, view));
            draw.image = task.index + 1;
            std::memcpy(task.place.bytes(fields_.view_at(view)).data(), &draw, sizeof draw);
        }
    }

  private:
    const std::shared_ptr<const ImageTable> images_;
};

}  // namespace

std::unique_ptr<SampleWriter> make_indexed_writer(const WriterSetup& setup, const IndexedImages& images) {
    require_gather(setup, *images.table);
    return std::make_unique<IndexedWriter>(setup, images.table);
}

}  // namespace stoker
