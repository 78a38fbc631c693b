"""Batches between processes: tensors and arrays in shared memory, the structure around them by pickle.

Shared memory is a file without a name (memfd): it has no entry in /dev/shm, its size is not limited by that of /dev/shm
in a container, and the kernel frees it with the last process, however that ends.
"""

from __future__ import annotations

import io
import mmap
import os
import pickle
import sys
import weakref
from collections import deque
from collections.abc import Callable
from math import prod
from typing import Any

from stoker import _stoker
from stoker.errors import IoError
from stoker.processes.collate import ITEM_BYTES, Stack, dtype_name
from stoker.processes.interrupts import HeldInterrupts

_ALIGNMENT = 64
_SMALL = 1 << 16  # bytes
_RECENT = 16  # batches
_MUCH = 4  # times the size of the largest of these
_LITTLE = 1 << 20  # bytes


class Slot:
    """Memory of one batch, as the process sees it that fills it."""

    def __init__(self, number: int, size: int) -> None:
        self.number = number
        self.size = -(-max(size, 1) // mmap.PAGESIZE) * mmap.PAGESIZE
        self._file = io.FileIO(os.memfd_create("stoker", os.MFD_CLOEXEC), "r+")
        try:
            os.posix_fallocate(self.fd, 0, self.size)  # fails here; writing later would kill the process
            self.memory = _stoker.SharedMemory(self.fd, self.size)  # Python's mmap would keep a copy of the descriptor
        except OSError as error:
            self._file.close()
            raise IoError(
                f"[shared memory] expected {self.size} bytes for a batch, got {error.strerror}; "
                "lower workers, prefetch or batch_size"
            ) from None
        except IoError:
            self._file.close()
            raise

    def view(self) -> memoryview:
        return memoryview(self.memory.array(0, "uint8", [self.size], self.memory))

    @property
    def fd(self) -> int:
        return self._file.fileno()

    def close_file(self) -> None:
        """The memory stays mapped."""
        self._file.close()


class Slots:
    """The memory of one worker. A slot is used again when its batch is gone; one is made where none is free."""

    def __init__(self) -> None:
        self._free: list[Slot] = []
        self._used: dict[int, Slot] = {}
        self._made = 0
        self._sizes: deque[int] = deque(maxlen=_RECENT)  # of the last batches, in bytes

    def take(self, size: int, dropped: list[int]) -> tuple[Slot, bool]:
        """A slot of at least `size` bytes, and whether it is new. Numbers of slots that end are added to `dropped`."""
        self._sizes.append(size)
        most = max(self._sizes)
        too_large = [slot for slot in self._free if slot.size > max(_MUCH * most, _LITTLE)]
        dropped += [slot.number for slot in too_large]  # one large batch does not keep its memory for good
        self._free = [slot for slot in self._free if slot not in too_large]
        while self._free:
            slot = self._free.pop()
            if slot.size >= size:
                self._used[slot.number] = slot
                return slot, False
            dropped.append(slot.number)
        with HeldInterrupts():  # nobody owns the file before the end of __init__
            slot = self._used[self._made] = Slot(self._made, most)
            self._made += 1
        return slot, True

    def lose(self, slot: Slot, new: bool, dropped: list[int]) -> None:
        """A slot whose batch could not be written ends."""
        del self._used[slot.number]
        if new:
            slot.close_file()  # which nobody else has
        else:
            dropped.append(slot.number)

    def free(self, numbers: list[int], keep: int) -> list[int]:
        """Slots whose batches are gone. Returns those beyond `keep`, which end."""
        self._free += [self._used.pop(number) for number in numbers]
        surplus = self._free[keep:]
        del self._free[keep:]
        return [slot.number for slot in surplus]


class _Pickler(pickle.Pickler):
    def __init__(self, file: io.BytesIO) -> None:
        super().__init__(file, pickle.HIGHEST_PROTOCOL)
        self.leaves: list[tuple[int, Stack]] = []
        self.bytes = 0

    def persistent_id(self, value: Any) -> tuple[int, str, tuple[int, ...], bool] | None:
        stack = value if isinstance(value, Stack) else _as_stack(value)
        if stack is None:
            return None
        offset = -(-self.bytes // _ALIGNMENT) * _ALIGNMENT
        self.leaves.append((offset, stack))
        self.bytes = offset + prod(stack.shape) * ITEM_BYTES[stack.dtype]
        return offset, stack.dtype, stack.shape if stack is value else stack.shape[1:], _is_array(value)


def _is_array(value: Any) -> bool:
    numpy = sys.modules.get("numpy")
    return numpy is not None and type(value) is numpy.ndarray


def _as_stack(value: Any) -> Stack | None:
    """A tensor or an array as a stack of one."""
    torch = sys.modules.get("torch")
    if not (torch and type(value) is torch.Tensor) and not _is_array(value):
        return None
    name = dtype_name(value)
    return None if name is None else Stack([value], name, tuple(value.shape))


def write(value: Any, slots: Slots, dropped: list[int]) -> tuple[bytes, Slot | None, bool]:
    """(the structure, the slot with the arrays, whether that is new)."""
    file = io.BytesIO()
    pickler = _Pickler(file)
    pickler.dump(value)
    if not pickler.leaves:
        return file.getvalue(), None, False
    slot, new = slots.take(pickler.bytes, dropped)
    memory = slot.view()
    try:
        for offset, stack in pickler.leaves:
            stack.write(memory[offset : offset + prod(stack.shape) * ITEM_BYTES[stack.dtype]])
    except BaseException:
        slots.lose(slot, new, dropped)
        raise
    return file.getvalue(), slot, new


class Lease:
    """A batch's hold on its slot. All large arrays of the batch own it; the slot is free when the last one is gone."""

    __slots__ = ("__weakref__", "memory")

    def __init__(self, memory: _stoker.SharedMemory) -> None:
        self.memory = memory


class _Held(weakref.ref[Lease]):
    """To a lease that may be gone, and its slot."""

    __slots__ = ("slot",)
    slot: int


class Leases:
    """The leases on the slots of one worker. Any thread may drop one."""

    def __init__(self) -> None:
        self._held: dict[int, _Held] = {}
        self._gone: deque[_Held] = deque()

    def hold(self, memory: _stoker.SharedMemory, slot: int) -> Lease:
        lease = Lease(memory)
        # No function of Python is called when the lease goes: Python would drop a KeyboardInterrupt that is raised there.
        held = self._held[slot] = _Held(lease, self._gone.append)
        held.slot = slot
        return lease

    def freed(self) -> list[int]:
        """Slots that are free since the last call."""
        gone = [self._gone.popleft() for _ in range(len(self._gone))]
        return [self._held.pop(held.slot).slot for held in gone]


class _Unpickler(pickle.Unpickler):
    def __init__(self, file: io.BytesIO, lease: Lease | None, to_tensor: Callable[..., Any]) -> None:
        super().__init__(file)
        self._lease = lease
        self._to_tensor = to_tensor

    def persistent_load(self, leaf: Any) -> Any:
        offset, dtype, shape, is_array = leaf
        assert self._lease is not None
        # A label that a program keeps would keep the images of its batch: small arrays are copied.
        small = prod(shape) * ITEM_BYTES[dtype] <= _SMALL
        array = self._lease.memory.array(offset, dtype, list(shape), None if small else self._lease)
        return self._to_tensor(array, is_array and dtype != "bfloat16")  # which NumPy does not have


def read(structure: bytes, lease: Lease | None, to_tensor: Callable[..., Any]) -> Any:
    """What `write` was given, with tensors over the slot's memory. to_tensor: takes an array of the extension, and
    whether it was one of NumPy's."""
    return _Unpickler(io.BytesIO(structure), lease, to_tensor).load()
