#include <cstring>
#include <fmt/format.h>
#include <utility>

#include "stoker/base/error.h"
#include "stoker/pipeline/sample_writer.h"
#include "stoker/pipeline/transforms/device_ops.h"

namespace stoker {
namespace {

class IndexedWriter final : public SampleWriter {
  public:
    IndexedWriter(const LoaderFields& fields, std::shared_ptr<const ImageTable> images)
        : SampleWriter(fields, std::nullopt, [&](int view) { return draws_of(view, fields, images->block()); }),
          images_(std::move(images)) {}

    void write(const SampleTask& task) const override {
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
    static FieldSpec draws_of(int view, const LoaderFields& fields, const std::shared_ptr<const ImageBlock>& images) {
        const Transform& transform = fields.transform();
        const GatherPlan plan = gather_plan(transform.slice(OpRange::remaining), images->size);
        return {
            .name = view_name(view),
            .shape = {sizeof(GatherDraw)},
            .deferred = DeferredNormalize{.factors = transform.factors(),
                                          .layout = fields.options().layout,
                                          .gather = DeferredGather{.images = images, .ops = plan.ops, .to = plan.to}}};
    }

    const std::shared_ptr<const ImageTable> images_;
};

}  // namespace

std::unique_ptr<SampleWriter> make_indexed_writer(const LoaderFields& fields, const IndexedImages& images) {
    const Dataset& dataset = fields.dataset();
    const auto wrong = find_not_gathered(fields.transform().slice(OpRange::remaining));
    if (wrong || fields.have_planes() || images.table->size() != dataset.size() || !dataset.fields().empty()) {
        throw InvalidArgument(
            {.where = "loader",
             .expected = fmt::format("images of {} samples without further fields, and ops that a gather can do",
                                     dataset.size()),
             .got = wrong ? fmt::format("op {}, which {}", wrong->op + 1, wrong->why)
                          : fmt::format("{}, and {} fields", images.table->size(), dataset.fields().size())});
    }
    return std::make_unique<IndexedWriter>(fields, images.table);
}

}  // namespace stoker
