// The ops for sounds, planes of one row, and for their spectrograms.
#pragma once

#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "stoker/base/planes.h"
#include "stoker/base/rng.h"
#include "stoker/ops/mel_spectrogram.h"

namespace stoker {

class OpOptions;

// The op `mel_spectrogram`. Its filters need the rate of the sounds, which a Transform knows.
struct MelOp {
    MelOptions options;
    std::shared_ptr<const MelSpectrogram> made = nullptr;
};

using SoundOp = std::variant<MelOp, AmplitudeToDb, RandomGain, SpecAugment>;

bool is_random(const SoundOp& op);

// Makes the filters of a MelOp. Throws InvalidArgument if the rate is 0, or too low for the op's options.
void set_sample_rate(SoundOp& op, int sample_rate);

// Null for other names than those of sound ops. The maker throws as those of op_table.h.
using MakeSoundOp = SoundOp (*)(OpOptions& options);
MakeSoundOp sound_op_maker(const std::string& name);
std::vector<std::string> sound_op_names();

// Scratch memory, reused from sound to sound.
struct SoundScratch {
    Planes spectrogram;
    Buffer frames;
};

// Runs the op in place; a MelOp's result is in `scratch`. Throws DataError for planes of the wrong shape.
ConstPlanesView run_sound_op(const SoundOp& op, PlanesView sound, Rng rng, SoundScratch& scratch);

}  // namespace stoker
