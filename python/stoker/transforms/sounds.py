"""Ops for sounds and spectrograms, with the names and arguments of torchaudio.transforms."""

from stoker.transforms.base import Range, Transform


class MelSpectrogram(Transform):
    """torchaudio's: the powers of a sound on the mel scale, an image (C, n_mels, frames) of float32. sample_rate: if given,
    that of the Loader. n_fft: a number without a prime factor above 127."""

    op = "mel_spectrogram"

    def __init__(
        self,
        sample_rate: int | None = None,
        n_fft: int = 400,
        win_length: int | None = None,
        hop_length: int | None = None,
        f_min: float = 0.0,
        f_max: float | None = None,
        *,
        n_mels: int = 128,
        power: float = 2.0,
        norm: str | None = None,
        mel_scale: str = "htk",
    ) -> None:
        super().__init__(
            sample_rate=sample_rate, n_fft=n_fft, win_length=win_length, hop_length=hop_length, f_min=f_min, f_max=f_max, n_mels=n_mels,
            power=power, norm=norm, mel_scale=mel_scale,
        )  # fmt: skip


class AmplitudeToDB(Transform):
    """torchaudio's: decibels. top_db: values are at least the largest less this many."""

    op = "amplitude_to_db"

    def __init__(self, stype: str = "power", top_db: float | None = None) -> None:
        super().__init__(stype=stype, top_db=top_db)


class Gain(Transform):
    """Multiplies a sound by a gain in decibels, or by one from (low, high). Nothing is clipped."""

    op = "gain"

    def __init__(self, gain_db: Range) -> None:
        super().__init__(gain_db=gain_db)


class SpecAugment(Transform):
    """torchaudio's, without iid_masks: masks frames, then bands, of a spectrogram."""

    op = "spec_augment"

    def __init__(
        self,
        n_time_masks: int,
        time_mask_param: int,
        n_freq_masks: int,
        freq_mask_param: int,
        *,
        p: float = 1.0,
        zero_masking: bool = False,
    ) -> None:
        super().__init__(
            n_time_masks=n_time_masks, time_mask_param=time_mask_param, n_freq_masks=n_freq_masks,
            freq_mask_param=freq_mask_param, p=p, zero_masking=zero_masking,
        )  # fmt: skip
