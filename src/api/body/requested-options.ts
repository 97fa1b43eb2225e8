import type { Caller } from '../auth/caller.ts'
import { readOptions, type RequestOptions } from './request-fields.ts'
import type { Json } from './request-limits.ts'

/** Where a request has its options. */
interface OptionSource {
  readonly json: Json
  readonly isForm: boolean
  /** `x-firstlight-options`; null: absent. */
  readonly header: string | null
}

/** Reads the options of a request. Fails with a Failure if they are invalid, or if the caller may not set them. */
export type ReadOptions = (source: OptionSource, caller: Caller) => RequestOptions

/** The options as requested: without keys, clients may set everything. */
export const requestedOptions: ReadOptions = ({ json, isForm, header }) => readOptions(isForm ? null : json, header)
