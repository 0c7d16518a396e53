/**
 * The one binding of libbpf: each function that the driver uses, with its C prototype and its TypeScript type side by
 * side. koffi cannot check an argument against C, and a wrong one ends the process, so nothing else may call libbpf.
 *
 * Every function that returns a number returns -errno when it fails (libbpf 1.x). Functions made by `later` run on a
 * thread of libuv's pool: they are those on which the kernel may wait for RTNL or an RCU grace period, or copies much.
 */
import koffi, { type LibraryHandle } from 'koffi'
import { KernelError } from '../libc.ts'
import { declareStructs, type LinkOptions, type MapOptions, type OpenOptions, type TestRun } from './structs.ts'
import { tapWarnings } from './warnings.ts'

/** An address given out by libbpf; the brands keep one kind from being taken for another. */
export type ObjectPointer = bigint & { readonly pointsTo: 'bpf_object' }
export type ProgramPointer = bigint & { readonly pointsTo: 'bpf_program' }
export type MapPointer = bigint & { readonly pointsTo: 'bpf_map' }
export type BtfPointer = bigint & { readonly pointsTo: 'btf' }
export type RingPointer = bigint & { readonly pointsTo: 'ring_buffer' }
export type CallbackPointer = bigint & { readonly pointsTo: 'function' }

/** Called with the address and size of each record. */
export type RingCallback = (context: null, data: bigint, size: number | bigint) => number

/** A buffer that the kernel reads or fills; null where the prototype allows it. */
type Bytes = Uint8Array | Uint32Array | null

export type Libbpf = ReturnType<typeof bindLibbpf>

/** linux/bpf.h: program and attach type of netfilter programs, whose section libbpf before 1.3 does not know. */
const PROG_TYPE_NETFILTER = 32
export const ATTACH_NETFILTER = 45

/** Number of the bpf system call: asm/unistd_64.h, and asm-generic/unistd.h for every newer architecture. */
const SYS_BPF = process.arch === 'x64' ? 321 : 280

/** What `libbpf` has bound; not state of the agent but of the process that the library is loaded into. */
const bound: { libbpf?: Libbpf } = {}

/**
 * libbpf, bound at the first call. One binding serves the process: the library's print hook and the names of koffi's
 * types exist once in a process anyway. Throws `libbpf.so.1 is missing: install libbpf1`.
 */
export function libbpf(): Libbpf {
  bound.libbpf ??= bindLibbpf('libbpf.so.1')
  return bound.libbpf
}

/** Binds the library of this name; apart from tests only `libbpf` calls it. */
export function bindLibbpf(name: string) {
  const library = load(name)
  const libc = koffi.load(null)
  // The casts below only give a type to what koffi knows by its prototype text.
  const now = <F>(prototype: string) => library.func(prototype) as F
  const later = <A extends unknown[]>(prototype: string) => onPool<A>(library.func(prototype) as Async<A>)

  const memory = memoryAccess(libc)
  declareStructs()
  const sample = koffi.proto('int ring_buffer_sample_fn(void *context, void *data, size_t size)')
  const syscall = onPool<[number: number, command: number, attributes: Bytes, size: number]>(
    libc.func('long syscall(long number, long command, void *attributes, unsigned long size)'),
  )
  const teachSection = now<(section: string, type: number, attachType: number, options: null) => number>(
    'int libbpf_register_prog_handler(const char *section, int type, int attach_type, const void *options)',
  )
  checked(teachSection('netfilter', PROG_TYPE_NETFILTER, ATTACH_NETFILTER, null), 'teach libbpf the netfilter section')

  return {
    warnings: tapWarnings(library, libc),
    version: now<() => string>('const char *libbpf_version_string(void)'),

    // Objects
    /** `code` must stay as it is until the object is loaded or closed. */
    openObject: now<(code: Uint8Array, size: number, options: OpenOptions) => ObjectPointer | null>(
      'void *bpf_object__open_mem(const void *code, size_t size, const bpf_object_open_opts *options)',
    ),
    loadObject: later<[object: ObjectPointer]>('int bpf_object__load(void *object)'),
    closeObject: now<(object: ObjectPointer) => void>('void bpf_object__close(void *object)'),
    /** The first program after null; null after the last. */
    nextProgram: now<(object: ObjectPointer, program: ProgramPointer | null) => ProgramPointer | null>(
      'void *bpf_object__next_program(void *object, void *program)',
    ),
    programName: now<(program: ProgramPointer) => string>('const char *bpf_program__name(void *program)'),
    programFd: now<(program: ProgramPointer) => number>('int bpf_program__fd(void *program)'),
    findMap: now<(object: ObjectPointer, name: string) => MapPointer | null>(
      'void *bpf_object__find_map_by_name(void *object, const char *name)',
    ),
    mapFd: now<(map: MapPointer) => number>('int bpf_map__fd(void *map)'),
    /** The first map after null; null after the last. */
    nextMap: now<(object: ObjectPointer, map: MapPointer | null) => MapPointer | null>(
      'void *bpf_object__next_map(void *object, void *map)',
    ),
    mapName: now<(map: MapPointer) => string>('const char *bpf_map__name(void *map)'),
    /** Null where a map is not to be pinned. */
    pinPath: now<(map: MapPointer) => string | null>('const char *bpf_map__pin_path(void *map)'),
    /** Before loading. */
    setMaxEntries: now<(map: MapPointer, entries: number) => number>(
      'int bpf_map__set_max_entries(void *map, uint32_t entries)',
    ),
    /** Where a map is pinned, or taken over from, in place of the object's directory; before loading. */
    setPinPath: now<(map: MapPointer, path: string) => number>(
      'int bpf_map__set_pin_path(void *map, const char *path)',
    ),
    /** Address and size of a map's content before loading; the size is a 64-bit integer. */
    initialValue: now<(map: MapPointer, size: BigUint64Array) => bigint | null>(
      'void *bpf_map__initial_value(void *map, void *size)',
    ),

    /** Copies `length` bytes out of memory that libbpf or the kernel owns, or into it. */
    copyOut: memory.copyOut,
    copyIn: memory.copyIn,

    // Type information
    objectBtf: now<(object: ObjectPointer) => BtfPointer | null>('void *bpf_object__btf(void *object)'),
    findType: now<(btf: BtfPointer, name: string, kind: number) => number>(
      'int btf__find_by_name_kind(void *btf, const char *name, uint32_t kind)',
    ),
    typeById: now<(btf: BtfPointer, id: number) => bigint | null>('void *btf__type_by_id(void *btf, uint32_t id)'),

    /** `code` is instructions of 8 bytes each, `count` of them. */
    loadProgram: later<[type: number, name: string, license: string, code: Uint8Array, count: number, options: null]>(
      'int bpf_prog_load(int type, const char *name, const char *license, const void *code, size_t count, void *options)',
    ),

    // Anything with a file descriptor
    pin: now<(fd: number, path: string) => number>('int bpf_obj_pin(int fd, const char *path)'),
    openPin: now<(path: string) => number>('int bpf_obj_get(const char *path)'),
    /** Fills `info`; `size` is the size of `info` before and what the kernel filled after. */
    info: now<(fd: number, info: Bytes, size: Bytes) => number>(
      'int bpf_obj_get_info_by_fd(int fd, void *info, void *size)',
    ),

    // Maps
    createMap: now<
      (
        type: number,
        name: string,
        keySize: number,
        valueSize: number,
        maxEntries: number,
        options: MapOptions,
      ) => number
    >(
      'int bpf_map_create(int type, const char *name, uint32_t key_size, uint32_t value_size, uint32_t max_entries, const bpf_map_create_opts *options)',
    ),
    createMapLater: later<
      [type: number, name: string, keySize: number, valueSize: number, maxEntries: number, options: MapOptions]
    >(
      'int bpf_map_create(int type, const char *name, uint32_t key_size, uint32_t value_size, uint32_t max_entries, const bpf_map_create_opts *options)',
    ),
    update: now<(fd: number, key: Bytes, value: Bytes, flags: number) => number>(
      'int bpf_map_update_elem(int fd, const void *key, const void *value, uint64_t flags)',
    ),
    updateLater: later<[fd: number, key: Bytes, value: Bytes, flags: number]>(
      'int bpf_map_update_elem(int fd, const void *key, const void *value, uint64_t flags)',
    ),
    lookup: now<(fd: number, key: Bytes, value: Bytes) => number>(
      'int bpf_map_lookup_elem(int fd, const void *key, void *value)',
    ),
    remove: now<(fd: number, key: Bytes) => number>('int bpf_map_delete_elem(int fd, const void *key)'),
    nextKey: now<(fd: number, key: Bytes, next: Bytes) => number>(
      'int bpf_map_get_next_key(int fd, const void *key, void *next)',
    ),
    updateBatch: later<[fd: number, keys: Bytes, values: Bytes, count: Bytes, options: null]>(
      'int bpf_map_update_batch(int fd, const void *keys, const void *values, void *count, const void *options)',
    ),
    lookupBatch: later<[fd: number, from: Bytes, next: Bytes, keys: Bytes, values: Bytes, count: Bytes, options: null]>(
      'int bpf_map_lookup_batch(int fd, void *from, void *next, void *keys, void *values, void *count, const void *options)',
    ),
    removeBatch: later<[fd: number, keys: Bytes, count: Bytes, options: null]>(
      'int bpf_map_delete_batch(int fd, const void *keys, void *count, const void *options)',
    ),
    possibleCpus: now<() => number>('int libbpf_num_possible_cpus(void)'),

    // Links
    createLink: later<[program: number, target: number, attachType: number, options: LinkOptions | null]>(
      'int bpf_link_create(int program, int target, int attach_type, const bpf_link_create_opts *options)',
    ),
    /** On the calling thread, for an interface of the network namespace that it is in. */
    createLinkHere: now<(program: number, target: number, attachType: number, options: LinkOptions | null) => number>(
      'int bpf_link_create(int program, int target, int attach_type, const bpf_link_create_opts *options)',
    ),
    updateLink: later<[link: number, program: number, options: null]>(
      'int bpf_link_update(int link, int program, const void *options)',
    ),
    detachLink: later<[link: number]>('int bpf_link_detach(int link)'),
    /** bpf(2) itself, for what libbpf 1.1 has no function for; `attributes` is union bpf_attr. */
    bpf: (command: number, attributes: Uint8Array) => syscall(SYS_BPF, command, attributes, attributes.length),

    // Ring buffers
    /** Makes a C function of `take`, which ends the consuming by a negative number; `freeRingCallback` gives it back. */
    ringCallback: (take: RingCallback) => koffi.register(take, koffi.pointer(sample)) as CallbackPointer,
    freeRingCallback: (callback: CallbackPointer) => koffi.unregister(callback),
    newRing: now<(fd: number, onSample: CallbackPointer, context: null, options: null) => RingPointer | null>(
      'void *ring_buffer__new(int fd, ring_buffer_sample_fn *on_sample, void *context, const void *options)',
    ),
    ringEpollFd: now<(ring: RingPointer) => number>('int ring_buffer__epoll_fd(void *ring)'),
    consumeRing: now<(ring: RingPointer) => number>('int ring_buffer__consume(void *ring)'),
    freeRing: now<(ring: RingPointer) => void>('void ring_buffer__free(void *ring)'),

    testRun: later<[program: number, run: TestRun]>(
      'int bpf_prog_test_run_opts(int program, _Inout_ bpf_test_run_opts *run)',
    ),
    /** On the calling thread, in the network namespace that it is in. */
    testRunHere: now<(program: number, run: TestRun) => number>(
      'int bpf_prog_test_run_opts(int program, _Inout_ bpf_test_run_opts *run)',
    ),
  }
}

/** The result itself when it is not negative; otherwise throws `<ERRNO>: cannot <what>`. */
export function checked(result: number, what: string): number {
  if (result < 0) throw new KernelError(-result, `cannot ${what}`)
  return result
}

/** The pointer itself when it is not null; to be called at once, while errno is still that of the call. */
export function present<P extends bigint>(pointer: P | null, what: string): P {
  if (pointer === null) throw new KernelError(koffi.errno(), `cannot ${what}`)
  return pointer
}

function load(name: string): LibraryHandle {
  try {
    return koffi.load(name)
  } catch (cause) {
    throw new Error(`${name} is missing: install libbpf1`, { cause })
  }
}

/** Copies, not views: a view would outlive the memory that it shows. */
function memoryAccess(libc: LibraryHandle) {
  const out = libc.func('void *memcpy(_Out_ void *to, const void *from, size_t length)')
  const into = libc.func('void *memcpy(void *to, const void *from, size_t length)')
  return {
    copyOut(from: bigint, length: number): Buffer {
      const bytes = Buffer.allocUnsafe(length)
      out(bytes, from, length)
      return bytes
    },
    copyIn(to: bigint, bytes: Uint8Array): void {
      into(to, bytes, bytes.length)
    },
  }
}

type Async<A extends unknown[]> = { async(...args: [...A, (failure: unknown, result: number) => void]): void }

/**
 * Calls on a pool thread. koffi hands only addresses to that thread, so the arguments are held here until the call has
 * ended; errno is that of the call only inside the completion callback.
 */
function onPool<A extends unknown[]>(call: Async<A>): (...args: A) => Promise<number> {
  const running = new Set<A>()
  return (...args) =>
    new Promise((resolve, reject) => {
      running.add(args)
      call.async(...args, (failure, result) => {
        running.delete(args)
        if (failure) reject(failure)
        else resolve(result === -1 ? -koffi.errno() : Number(result))
      })
    })
}
