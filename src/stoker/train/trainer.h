// Trains a model on data as a recipe says. A C++ program makes one Trainer; `stoker train` runs the same class. It
// wires a TrainPlan, a TrainLoop, a RunRecorder and a RankSync together (README.md).
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "stoker/train/fit_options.h"
#include "stoker/train/run/rank_sync.h"
#include "stoker/train/run/run_recorder.h"
#include "stoker/train/run/train_plan.h"
#include "stoker/train/train_loop.h"

namespace stoker {

class Trainer {
  public:
    // Opens what the recipe names, and throws where the run could not be trained. `resumes`: `fit` will resume from a
    // checkpoint, so model.weights need not exist any more. `group`: the processes that train together; each of them
    // makes its Trainer and calls the same functions; null: those that the environment names.
    explicit Trainer(const Recipe& recipe, bool resumes = false, std::shared_ptr<Group> group = nullptr);
    // With data and a model of your own: a null `model` is made from the recipe. Without validation data the recipe's
    // share is split off, as with_val_share does.
    Trainer(const Recipe& recipe, RecipeData data, std::unique_ptr<Model> model = nullptr,
            OptimizerKernel kernel = OptimizerKernel::fused, bool resumes = false,
            std::shared_ptr<Group> group = nullptr);

    // With a loss and metrics of your own: the recipe's task becomes "custom".
    Trainer(const Recipe& recipe, RecipeData data, std::unique_ptr<Model> model, const CustomTask& task,
            bool resumes = false, std::shared_ptr<Group> group = nullptr);

    // Trains all epochs of the recipe, or those that are left after a resume, and evaluates as the recipe says. Returns
    // early where `options.interrupt` asks for it. Throws InvalidArgument where `options.resume` names no checkpoint of
    // this recipe's model and data, and what data, model, disk and device throw; then `options.on_failure` says where
    // the run can be resumed.
    TrainResult fit(const FitOptions& options = {});

    // The model on all of the validation data. Throws InvalidArgument where there is none.
    Evaluation evaluate();

    // Its tensors are those that this process has: without memory where train.shard is "full".
    Model& model() { return *plan_.model; }
    // On rank 0 all tensors of the model, whole, in host memory where the processes have parts of it. All ranks must
    // call it.
    std::vector<NamedTensor> gather_model() const { return loop_.checkpoints().gather_model(); }
    // The tensors of the last layer, where model.weights had them for another number of classes.
    const std::vector<std::string>& fresh() const { return plan_.new_tensors; }
    // The data sets that the loaders read.
    const RecipeData& data() const { return plan_.data; }
    // Loads this process's share of each batch.
    Loader& train_loader() { return *plan_.train_loader; }
    const Loader& train_loader() const { return *plan_.train_loader; }
    const Loader* val_loader() const { return plan_.val_loader.get(); }  // null without validation data
    // Where the time of the training thread goes.
    Account& account() { return loop_.account(); }
    const at::Device& device() const { return plan_.device; }
    // Target, loss and metrics, with the shapes of this data.
    const Task& task() const { return plan_.task; }
    // The processes that train together; one, if this process is alone.
    const Group& group() const { return *plan_.group; }
    // See Step::compiled.
    std::string compiled() const { return loop_.step().compiled(); }
    // Elements of the whole model; this process may have a part of it.
    std::int64_t parameters() const { return plan_.parameters; }
    // The elements that train: all but frozen ones.
    std::int64_t trained_parameters() const { return plan_.trained_parameters; }
    // Which stage of the model this process has; empty for a model without stages.
    const std::optional<ModelStage>& stage() const { return plan_.stage; }
    // In how many a batch is split: train.accumulate, or more once memory ran out.
    std::int64_t micro_batches() const { return loop_.step().accumulate(); }

  private:
    Trainer(TrainPlan plan, OptimizerKernel kernel);
    void start(const FitOptions& options);
    void warn_without_lock(const FitOptions& options) const;
    Resumed resume(const std::filesystem::path& checkpoint, const FitOptions& options);
    std::optional<std::int64_t> kept_epoch(const FitOptions& options) const;
    TrainResult result(const FitOptions& options, bool interrupted);
    void fail(const std::exception& error, bool trained, const FitOptions& options);
    void record_failure(const std::string& reason, bool trained, bool lost, const FitOptions& options);

    TrainPlan plan_;
    RunRecorder recorder_;
    RankSync ranks_;
    TrainLoop loop_;
    std::optional<std::int64_t> resumed_from_;
};

}  // namespace stoker
