#include "stoker/train/run/own_checkpoint.h"

#include <optional>
#include <utility>

#include "stoker/base/file.h"
#include "stoker/base/map_damage.h"
#include "stoker/train/run/atomic_folder.h"
#include "stoker/train/run/checkpoint.h"
#include "stoker/train/run/data_checks.h"
#include "stoker/train/run/run_state.h"

namespace stoker {

namespace fs = std::filesystem;

namespace {

// Without a slash at its end.
fs::path whole_name(const fs::path& path) {
    return (fs::absolute(path) / "").lexically_normal().parent_path();
}

}  // namespace

void save_checkpoint(const fs::path& path, std::int64_t steps, const Model& model, const Step& step,
                     const Loader& loader) {
    const auto classes = loader.dataset().classes();
    const Checkpoint checkpoint{.model = model.state(),
                                .optimizer = step.optimizer_state(),
                                .ema = step.ema().state(),
                                .state = to_json(RunState{.loader = loader.state(),
                                                          .classes = {classes.begin(), classes.end()},
                                                          .step = steps,
                                                          .epochs = {},
                                                          .sums = {},
                                                          .account = {},
                                                          .accumulate = step.accumulate(),
                                                          .data = summary_of(loader.dataset())}),
                                .metadata = {{"format", "pt"}}};  // Python's safetensors requires it
    const fs::path name = whole_name(path);
    const fs::path folder = new_folder(name, name.parent_path());
    write_checkpoint(folder, checkpoint);
    commit_folder(folder, name);
    sync_directory(name.parent_path());
}

std::int64_t resume_from(const fs::path& path, Model& model, Step& step, Loader& loader) {
    const fs::path name = whole_name(path);
    restore_replaced(name, name.parent_path());
    const std::optional<fs::path> found = find_checkpoint(name);
    if (!found) {
        return 0;
    }
    const Checkpoint saved = read_checkpoint(*found);
    const RunState state = run_state_from_json(saved.state);
    require_same_sampler(loader.state(), state.loader);  // before anything is changed
    require_classes(state.classes, "the checkpoint", loader.dataset().classes(), loader.dataset().path());
    model.load(saved.model, found->string());
    step.load(saved.optimizer, saved.ema);
    check_maps();  // of the checkpoint's files
    loader.restore(state.loader);
    step.accumulate_at_least(state.accumulate, loader.batch_sampler().max_slice());
    return state.step;
}

}  // namespace stoker
