import { isJsonObject } from '../../core/json.ts'
import { REMOVED_FIELDS } from '../../engines/engine-registry.ts'
import type { BodyEdit } from '../../origin/body-edit.ts'
import { scanObjectMembers, skipBlank, type Member } from '../../protocols/object-members.ts'

/** The complete list of changes to a client's body. All other bytes are forwarded unchanged. @testing */
export interface Edits {
  /** Engine's model name instead of an alias; null: unchanged. */
  readonly model: string | null
  /** Request the usage record of a stream. */
  readonly includeUsage: boolean
  /** The tenant's salt; null: the client's is unchanged. */
  readonly cacheSalt: string | null
  /** Changes for the pool, the engine or the leg; absent: none. */
  readonly further?: BodyEdit
}

type Json = Readonly<Record<string, unknown>>

/** Replaces the byte range from `from` to `to` by `put`. */
interface Splice {
  readonly from: number
  readonly to: number
  readonly put: Uint8Array | null
}

/**
 * Names that an engine must never get from a client. A body with `{"do_remote_prefill": true}` crashes a vLLM with
 * NIXL, and `vllm_xargs` is merged into the same dictionary (`SamplingParams.extra_args`).
 */
const FORBIDDEN = REMOVED_FIELDS
const OWN = 'firstlight'
const XARGS = 'vllm_xargs'

export const encoder = new TextEncoder()
const text = new TextDecoder()
const USAGE = '"stream_options":{"include_usage":true}'
const USAGE_IN_FRONT = encoder.encode(`${USAGE},`)
const NO_KEYS: readonly string[] = []
const json = (value: unknown): Uint8Array => encoder.encode(JSON.stringify(value))

export const isForbidden = (key: string): boolean => FORBIDDEN.includes(key)
const isRemoved = (key: string): boolean => key === OWN || isForbidden(key)
const removalTest = ({ further }: Edits): ((key: string) => boolean) =>
  further === undefined || further.remove.length === 0
    ? isRemoved
    : (key) => isRemoved(key) || further.remove.includes(key)
const holdsForbidden = (value: unknown): boolean =>
  isJsonObject(value) && FORBIDDEN.some((name) => Object.hasOwn(value, name))

/** True if the usage record of a stream is not requested, and can be without other changes for the client. */
export function canRequestUsage(body: Json): boolean {
  const options = body['stream_options']
  if (options === undefined || options === null) return true
  // continuous_usage_stats adds usage to every chunk once include_usage is on.
  return isJsonObject(options) && options['include_usage'] !== true && !options['continuous_usage_stats']
}

/** Rewrites the body for an engine, in pieces. `bytes` and `body` are the same document. Never changes `bytes`. */
export function rewriteBody(bytes: Uint8Array, body: Json, edits: Edits): readonly Uint8Array[] {
  const scope = editScope(body, edits)
  if (scope === 'nothing') return [bytes]
  const open = skipBlank(bytes, 0)
  if (scope === 'usage') return [bytes.subarray(0, open + 1), USAGE_IN_FRONT, bytes.subarray(open + 1)]
  const enough = scope === 'model' ? (member: Member) => holdsModel(bytes, member, body) : undefined
  const members = scope === 'front' ? [] : scanObjectMembers(bytes, open, enough)
  const splices = members === null ? null : spliceEdits(bytes, body, members, { edits, open })
  return splices === null ? [json(reserialize(body, edits))] : pieces(bytes, splices)
}

/**
 * Decides from the parsed body how much of the document must be searched. `front`: only new members are added;
 * `usage`: the same, and only usage is requested, as for nearly every stream.
 */
function editScope(body: Json, edits: Edits): 'nothing' | 'usage' | 'front' | 'model' | 'all' {
  if (Object.hasOwn(body, OWN) || holdsForbidden(body) || holdsForbidden(body[XARGS])) return 'all'
  if (edits.cacheSalt !== null && Object.hasOwn(body, 'cache_salt')) return 'all'
  if (edits.includeUsage && Object.hasOwn(body, 'stream_options')) return 'all'
  const furtherKeys =
    edits.further === undefined ? NO_KEYS : [...Object.keys(edits.further.set), ...edits.further.remove]
  if (furtherKeys.some((key) => Object.hasOwn(body, key))) return 'all'
  if (changesModel(body, edits)) return Object.hasOwn(body, 'model') ? 'model' : 'front'
  if (edits.cacheSalt !== null || furtherKeys.length > 0) return 'front'
  if (!edits.includeUsage) return 'nothing'
  return Object.keys(body).length === 0 ? 'front' : 'usage'
}

const changesModel = (body: Json, { model }: Edits): boolean => model !== null && body['model'] !== model

/**
 * True if this member has the wanted model already. With duplicates only the last one counts, so a different earlier
 * value may be missed: the engine then returns an unknown model.
 */
function holdsModel(bytes: Uint8Array, { key, valueAt, valueEnd }: Member, body: Json): boolean {
  return (
    key === 'model' &&
    bytes[valueAt] === 0x22 &&
    JSON.parse(text.decode(bytes.subarray(valueAt, valueEnd))) === body['model']
  )
}

function spliceEdits(
  bytes: Uint8Array,
  body: Json,
  members: readonly Member[],
  { edits, open }: { edits: Edits; open: number },
): Splice[] | null {
  const front: string[] = []
  const splices: Splice[] = []
  const unwanted = removalTest(edits)
  const put = (name: string, value: string): void => {
    // Removed members of the client are no place for the gateway's.
    const present = unwanted(name) ? [] : members.filter((member) => member.key === name)
    if (present.length === 0) front.push(`${JSON.stringify(name)}:${value}`)
    for (const member of present)
      splices.push({ from: member.valueAt, to: member.valueEnd, put: encoder.encode(value) })
  }
  if (edits.model !== null && changesModel(body, edits)) put('model', JSON.stringify(edits.model))
  if (edits.cacheSalt !== null) put('cache_salt', JSON.stringify(edits.cacheSalt))
  for (const [name, value] of Object.entries(edits.further?.set ?? {})) put(name, value)
  if (edits.includeUsage && !askForUsage(bytes, body, members, { front, splices })) return null
  for (const member of members) {
    if (member.key !== XARGS || bytes[member.valueAt] !== 0x7b) continue
    const inner = scanObjectMembers(bytes, member.valueAt)
    if (inner === null) return null
    splices.push(...removals(inner, isForbidden))
  }
  const removed = removals(members, unwanted)
  if (front.length > 0) {
    const alone = Object.keys(body).every(unwanted)
    splices.push({ from: open + 1, to: open + 1, put: encoder.encode(front.join(',') + (alone ? '' : ',')) })
  }
  splices.push(...removed)
  // Stable: an insertion at the front stays before a removal that starts at the same byte.
  return splices.sort((a, b) => a.from - b.from)
}

/** Inserts `stream_options` at the front if absent, otherwise changes the last one, which counts. */
function askForUsage(
  bytes: Uint8Array,
  body: Json,
  members: readonly Member[],
  out: { front: string[]; splices: Splice[] },
): boolean {
  const member = members.findLast(({ key }) => key === 'stream_options')
  if (member === undefined) {
    out.front.push(USAGE)
    return true
  }
  if (!isJsonObject(body['stream_options'])) {
    out.splices.push({ from: member.valueAt, to: member.valueEnd, put: encoder.encode('{"include_usage":true}') })
    return true
  }
  const inner = scanObjectMembers(bytes, member.valueAt)
  if (inner === null) return false
  const flags = inner.filter(({ key }) => key === 'include_usage')
  for (const flag of flags) out.splices.push({ from: flag.valueAt, to: flag.valueEnd, put: encoder.encode('true') })
  if (flags.length === 0) {
    const at = member.valueAt + 1
    out.splices.push({ from: at, to: at, put: encoder.encode(`"include_usage":true${inner.length === 0 ? '' : ','}`) })
  }
  return true
}

/** Removes each run of unwanted members with the comma that belongs to it. */
function removals(members: readonly Member[], unwanted: (key: string) => boolean): Splice[] {
  const splices: Splice[] = []
  for (let i = 0; i < members.length; i++) {
    if (!unwanted(members[i]!.key)) continue
    const first = i
    while (i + 1 < members.length && unwanted(members[i + 1]!.key)) i++
    const next = members[i + 1]
    const before = members[first - 1]
    if (next !== undefined) splices.push({ from: members[first]!.keyAt, to: next.keyAt, put: null })
    else splices.push({ from: before?.valueEnd ?? members[first]!.keyAt, to: members[i]!.valueEnd, put: null })
  }
  return splices
}

function pieces(bytes: Uint8Array, splices: readonly Splice[]): Uint8Array[] {
  const out: Uint8Array[] = []
  let done = 0
  for (const { from, to, put } of splices) {
    if (from > done) out.push(bytes.subarray(done, from))
    if (put !== null) out.push(put)
    done = Math.max(done, to)
  }
  if (done < bytes.length) out.push(bytes.subarray(done))
  return out
}

/**
 * Applies the same edits to the parsed document, for bytes that could not be edited. Loses what JSON.parse loses (big
 * integers).
 */
function reserialize(body: Json, edits: Edits): Json {
  const unwanted = removalTest(edits)
  const remaining = Object.entries(body).filter(([key]) => !unwanted(key))
  const out = new Map<string, unknown>(remaining)
  const xargs = body[XARGS]
  if (isJsonObject(xargs))
    out.set(XARGS, Object.fromEntries(Object.entries(xargs).filter(([key]) => !isForbidden(key))))
  if (edits.model !== null) out.set('model', edits.model)
  if (edits.cacheSalt !== null) out.set('cache_salt', edits.cacheSalt)
  if (edits.includeUsage) {
    const options = body['stream_options']
    out.set('stream_options', { ...(isJsonObject(options) ? options : {}), include_usage: true })
  }
  for (const [name, value] of Object.entries(edits.further?.set ?? {})) out.set(name, JSON.parse(value))
  return Object.fromEntries(out)
}
