/**
 * Uploads: a multipart form (RFC 7578, RFC 2046), of which a few short texts are read. Engines use another parser, so
 * input that two parsers could read differently is rejected. Otherwise the engine could see another model than the one
 * checked.
 */
import type { LimitsConfig } from '../../config.ts'
import { Failure } from '../../failure.ts'
import type { BodyAllocation } from '../../body-memory.ts'
import { decoder, readBounded, refuseEncoding, throwUnreadable, type BodySource, type JsonBody } from './body.ts'
import { encoder, isForbidden } from './body-rewrite.ts'
import { allBounds } from '../../protocols/protocols.ts'
import { isOn } from '../../protocols/request-fields.ts'

/** One part; its content is `[from, to)`. */
interface FormPart {
  readonly name: string
  readonly isFile: boolean
  readonly from: number
  readonly to: number
}

/** No engine knows more fields. */
const MAX_PARTS = 128
const MAX_HEADER_BYTES = 4096
/** Longer texts are not read. */
const MAX_TEXT_BYTES = 16_384
const CR = 13
const LF = 10
const DASH = 45

/** Fields that the gateway reads: they must be readable and unique. */
const READ_FIELDS: ReadonlySet<string> = new Set([
  'model',
  'stream',
  'vllm_xargs',
  'priority',
  'n',
  'best_of',
  ...allBounds,
])

/**
 * Reads a form and keeps its bytes. Fails with `unsupported_media`, `body_too_large`, `buffers_full`, `bad_body` or
 * `bad_value`.
 */
export async function readForm(
  request: BodySource,
  { bodyBytes }: Pick<LimitsConfig, 'bodyBytes'>,
  memory?: BodyAllocation | null,
): Promise<JsonBody> {
  const boundary = boundaryOf(request.headers.get('content-type') ?? '')
  refuseEncoding(request.headers.get('content-encoding'))
  const read = readBounded(request, bodyBytes, memory)
  const bytes = read instanceof Promise ? await read.catch(throwUnreadable) : read
  const json = new Map<string, unknown>()
  let model: FormPart | undefined
  for (const part of partsOf(bytes, boundary)) {
    const { name } = part
    const text = textOf(bytes, part)
    if (READ_FIELDS.has(name) && (text === null || json.has(name)))
      throw malformedForm(`must have ${name} once, as UTF-8 text`, name)
    // Engines merge vllm_xargs into the place of transfer parameters, which may crash them.
    if (isForbidden(name) || (name === 'vllm_xargs' && /\\|transfer_params/.test(text!))) {
      throw new Failure('bad_value', 'Clients may send no transfer parameters, and no backslash in vllm_xargs.', {
        param: name,
      })
    }
    if (name === 'model') model = part
    // Only the name of an unreadable field is kept, because some names are rejected with any content.
    json.set(name, text === null ? undefined : name === 'stream' ? isOn(text) : text)
  }
  return { bytes, json: Object.fromEntries(json), model }
}

/** Replaces the model of a form, in pieces. Never changes `bytes`. */
export function replaceFormModel({ bytes, json, model }: JsonBody, name: string): readonly Uint8Array[] {
  if (model === undefined || json['model'] === name) return [bytes]
  return [bytes.subarray(0, model.from), encoder.encode(name), bytes.subarray(model.to)]
}

function boundaryOf(type: string): string {
  const params = /^multipart\/form-data *;/i.test(type) ? paramsOf(type.slice(19), /^(?:boundary|charset)$/) : null
  const boundary = params?.get('boundary') ?? ''
  // Some parsers decode names in that charset: in UTF-7 `+AG0AbwBkAGUAbA-` is `model`.
  if (/^utf-?8$/i.test(params?.get('charset') ?? 'utf8') && /^[\w'()+,./:=?-]{1,70}$/.test(boundary)) return boundary
  throw new Failure(
    'unsupported_media',
    `content-type must be multipart/form-data with a boundary, not '${type.slice(0, 80)}'. Leave that header ` +
      'to your HTTP library.',
  )
}

/** Parses `; name=value…` of a header; null: malformed, a duplicate, or a name that is not `allowed`. */
function paramsOf(text: string, allowed: RegExp): Map<string, string> | null {
  const params = new Map<string, string>()
  const rest = text
    .trim()
    .replace(
      /; *([\w*-]+)=(?:"((?:[^"\\]|\\.)*)"|([^\s";\\]+)) */g,
      (all, key: string, quoted: string | undefined, bare: string) => {
        const name = key.toLowerCase()
        if (params.has(name) || !allowed.test(name)) return all
        params.set(name, quoted ?? bare)
        return ''
      },
    )
  return rest === '' ? params : null
}

/**
 * Splits a form into parts, in order. It must begin with a boundary, because not every parser skips a preamble.
 * @testing
 */
export function partsOf(bytes: Uint8Array, boundary: string): FormPart[] {
  const mark = encoder.encode(`\r\n--${boundary}`)
  const parts: FormPart[] = []
  let at = -2
  if (!matchesAt(bytes, mark.subarray(2), 0)) throw malformedForm('does not begin with its boundary')
  for (;;) {
    const open = at + mark.length + 2
    const behind = latin(bytes.subarray(open - 2, open))
    at = indexOfMark(bytes, mark, open)
    if (behind === '--' && at < 0) return parts
    if (behind !== '\r\n' || at < 0 || parts.length === MAX_PARTS)
      throw malformedForm(`does not end with its boundary and --, or has more than ${MAX_PARTS} parts`)
    parts.push(partOf(bytes, open, at))
  }
}

function matchesAt(bytes: Uint8Array, mark: Uint8Array, at: number): boolean {
  for (let i = 0; i < mark.length; i++) if (bytes[at + i] !== mark[i]) return false
  return true
}

/**
 * Finds `mark`; -1: absent. It begins with CR LF - -, so one byte in four is tested, and only candidates are compared,
 * from the end. A search from CR to CR took half a second for 33 MB of CRs.
 */
function indexOfMark(bytes: Uint8Array, mark: Uint8Array, from: number): number {
  const last = mark.length - 1
  for (let at = from + 3; at < bytes.length; at += 4) {
    const byte = bytes[at]
    if (byte !== DASH && byte !== CR && byte !== LF) continue
    const start = byte === CR ? at : byte === LF ? at - 1 : bytes[at - 1] === LF ? at - 2 : at - 3
    if (bytes[start + last] === mark[last] && matchesAt(bytes, mark, start)) return start
  }
  return -1
}

const latin = (bytes: Uint8Array): string => String.fromCharCode(...bytes)

/** Headers, an empty line, content. */
function partOf(bytes: Uint8Array, from: number, to: number): FormPart {
  const head = latin(bytes.subarray(from, Math.min(to, from + MAX_HEADER_BYTES)))
  const end = head.indexOf('\r\n\r\n')
  const fields = head.slice(0, Math.max(0, end))
  const [disposition, second] = fields.matchAll(/^content-disposition:(?: *form-data *)?(.*)/gim)
  // `name*` would repeat the name in an encoding.
  const params = second === undefined ? paramsOf(disposition?.[1] ?? '', /^(?:name|filename\*?)$/) : null
  const name = params?.get('name')
  // Encoded content differs from what is seen here, and some parsers read `mo\\del` as `model`.
  const isOdd =
    !/^(?:[\w-]+:[^\r\n\0]*(?:\r\n|$))+$/.test(fields) ||
    /^content-transfer-encoding:(?! *(?:[78]bit|binary))/im.test(fields)
  if (name === undefined || isOdd || /\\[^"\\]/.test(name))
    throw malformedForm('has a part with invalid headers: content-disposition with a name is needed, and no encoding')
  return { name, isFile: params!.size > 1, from: from + end + 4, to }
}

/** null: it is a file, too long, or not UTF-8. */
function textOf(bytes: Uint8Array, { isFile, from, to }: FormPart): string | null {
  try {
    return isFile || to - from > MAX_TEXT_BYTES ? null : decoder.decode(bytes.subarray(from, to))
  } catch {
    return null
  }
}

const malformedForm = (how: string, param: string | null = null): Failure =>
  new Failure('bad_body', `The form ${how}.`, { param })
