#include "engine/bench/ladder_peer.h"

#include "cli/commands/mnist_files.h"
#include "stoker/base/error.h"

namespace stoker::cli {

const std::vector<std::string>& peer_rungs() {
    static const std::vector<std::string> rungs = {"python workers=0", "python workers=2", "python workers=8",
                                                   "python in-memory"};
    return rungs;
}

PeerResult run_peer_rung(const PythonPeer& peer, const PeerRun& run, const std::atomic<int>& stop) {
    const auto document = run_python_peer(peer,
                                          {"--data", run.data, "--rung", run.rung, "--device", run.device, "--epochs",
                                           std::to_string(run.epochs), "--seed", std::to_string(run.seed), "--json"},
                                          stop);
    if (!document.contains("rungs") || document["rungs"].empty()) {
        throw Error(
            {.where = peer.script, .expected = "a JSON document with rungs", .got = document.dump().substr(0, 80)});
    }
    const auto& rung = document["rungs"][0];
    return {.seconds = rung.at("seconds").get<double>(), .accuracy = rung.at("accuracy").get<double>()};
}

LadderData::LadderData(const std::string& data) : path_(data) {
    const std::string format(open_dataset(data, Split::train)->format());
    if (format == "idx") {
        return;
    }
    if (!data.starts_with("synth:digits")) {
        throw InvalidArgument({.where = data, .expected = "IDX files or synth:digits for --peer", .got = format});
    }
    path_ = temporary_.emplace("stoker-ladder").path().string();
    ProgressBar progress;
    for (const Split split : {Split::train, Split::test}) {
        write_mnist_split(*open_dataset(data, split), split, path_, /*gzip=*/false, progress);
    }
}

}  // namespace stoker::cli
