/**
 * Hosts from which engines would fetch images, audio, videos and files. The engine's URL parser differs from ours, so a
 * URL that is not plainly `http(s)://HOST[:PORT][/…]` is refused instead of interpreted.
 */
import { isText, type Text, Utf8Text } from '../../core/tokens/utf8-text.ts'
import { matchesHost } from '../../url.ts'

/** A URL whose host is not allowed. `description` leaves out the path, because paths may be signed. */
interface ForeignMedia {
  readonly field: string
  readonly description: string
}

/** Members of a content part of OpenAI and vLLM: a URL, or an object with `url`. */
const URL_FIELDS: ReadonlySet<string> = new Set(['image_url', 'audio_url', 'video_url', 'file_url'])

/** Members of a part or a source whose `type` names its content (Anthropic, Hugging Face). */
const PART_FIELDS = ['url', 'image', 'audio', 'video', 'file'] as const

const PART_TYPE = /^(?:input_)?(?:url|image|audio|video|document|file)(?:_url)?$/

/** Engines do not fetch URLs from tool schemas. */
const NO_MEDIA = 'tools'

const PLAIN_URL = /^https?:\/\/([a-z0-9._-]+|\[[0-9a-f:.]+\])(?::\d{1,5})?(?:[/?#]|$)/i

const HEAD_BYTES = 5

const text = new TextDecoder()

/**
 * First URL in the body whose host is not one of `hosts`; `*.example.com` stands for every host below it. null: none.
 */
export function foreignMedia(json: Readonly<Record<string, unknown>>, hosts: readonly string[]): ForeignMedia | null {
  for (const name in json) {
    const found = name === NO_MEDIA ? null : foreignIn(json[name], name, hosts)
    if (found !== null) return found
  }
  return null
}

function foreignIn(value: unknown, field: string, hosts: readonly string[]): ForeignMedia | null {
  if (isText(value)) return URL_FIELDS.has(field) ? check(value, field, hosts) : null
  if (typeof value !== 'object' || value === null) return null
  if (Array.isArray(value)) {
    for (const item of value as unknown[]) {
      const found = foreignIn(item, field, hosts)
      if (found !== null) return found
    }
    return null
  }
  const part = value as Readonly<Record<string, unknown>>
  const found = foreignInPart(part, field, hosts)
  if (found !== null) return found
  for (const name in part) {
    const inner = foreignIn(part[name], name, hosts)
    if (inner !== null) return inner
  }
  return null
}

function foreignInPart(
  part: Readonly<Record<string, unknown>>,
  field: string,
  hosts: readonly string[],
): ForeignMedia | null {
  const { url, type } = part
  if (URL_FIELDS.has(field) && isText(url)) return check(url, field, hosts)
  if (typeof type !== 'string' || !PART_TYPE.test(type)) return null
  for (const name of PART_FIELDS) {
    const value = part[name]
    // Base64 has no colon.
    const found = isText(value) && !isData(value) && String(value).includes(':') ? check(value, name, hosts) : null
    if (found !== null) return found
  }
  return null
}

function check(value: Text, field: string, hosts: readonly string[]): ForeignMedia | null {
  if (isData(value)) return null
  const url = String(value)
  const host = PLAIN_URL.exec(url)?.[1]?.toLowerCase()
  // Parsers disagree on these characters: some read the host after them.
  if (host === undefined || /[\\\s]/.test(url)) return { field, description: 'a URL that is not http(s)' }
  return hosts.some((allowed) => matchesHost(host, allowed))
    ? null
    : { field, description: `the host ${host.slice(0, 100)}` }
}

/** Most media are megabytes in a `data:` URL, so only the first letters are decoded. */
const isData = (value: Text): boolean =>
  /^data:/i.test(
    value instanceof Utf8Text ? text.decode(value.utf8.subarray(0, HEAD_BYTES)) : value.slice(0, HEAD_BYTES),
  )
