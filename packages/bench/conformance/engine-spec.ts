/**
 * `nixl`, `prefill` and `decode` run the NIXL connector; `little` has a cache of 200 blocks; `slow-a` and `slow-b` run
 * a model with slow prefills; `file-prefill` and `file-decode` exchange their blocks as files; `left` and `right` keep
 * their blocks in an LMCache server each; `ear` serves speech; `encode` and `eye` serve images and exchange encoded ones as
 * files; `wide-a` and `wide-b` run many requests at once; `ranks` has two data-parallel ranks;
 * `lora-a` and `lora-b` load LoRA adapters at run time.
 */
export type EngineName =
  | 'a'
  | 'b'
  | 'nixl'
  | 'file-prefill'
  | 'file-decode'
  | 'prefill'
  | 'decode'
  | 'little'
  | 'slow-a'
  | 'slow-b'
  | 'left'
  | 'right'
  | 'ear'
  | 'encode'
  | 'eye'
  | 'wide-a'
  | 'wide-b'
  | 'ranks'
  | 'lora-a'
  | 'lora-b'

export interface EngineSpec {
  readonly model?: 'tiny' | 'small' | 'whisper' | 'llava'
  /** Appended to the common flags: the last one counts. */
  readonly args?: readonly string[]
  readonly env?: Readonly<Record<string, string>>
  /** Processor core of all its processes, so that engines do not slow each other. Absent: any. */
  readonly core?: number
  /** Its own address, for lookups by host. */
  readonly host?: string
}
