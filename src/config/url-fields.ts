/** Schemas of URLs and of the origins of web pages. */
import * as z from 'zod/mini'
import { asRule } from './fields.ts'

/** URL of a Valkey or Redis server, optionally with the number of a database. */
export function isServerUrl(value: string): boolean {
  const url = URL.canParse(value) ? new URL(value) : null
  return url !== null && /^rediss?:$/.test(url.protocol) && url.hostname !== '' && /^(\/\d*)?$/.test(url.pathname)
}

/** URL of a webhook: http or https, without a user. It may have a query. */
export function isWebhookUrl(value: string): boolean {
  const url = URL.canParse(value) ? new URL(value) : null
  return url !== null && /^https?:$/.test(url.protocol) && url.username === '' && url.password === ''
}

const urlRule = 'must be a base URL like http://10.0.0.1:8000'

/** Base URL of a server: http or https, optionally with a path. Trailing slashes are removed. */
export const baseUrl = z.string({ error: asRule(urlRule) }).check(
  (context) => {
    const problem = urlProblem(context.value)
    if (problem !== null) context.issues.push({ code: 'custom', message: problem, input: context.value })
  },
  z.overwrite((url) => url.replace(/\/+$/, '')),
)

function urlProblem(value: string): string | null {
  // URL.parse accepts blanks, backslashes and missing slashes, but appending a path to such a text fails.
  if (!URL.canParse(value) || (/^https?:/i.test(value) && !/^https?:\/\/[^\s\\]+$/i.test(value))) return urlRule
  const url = new URL(value)
  if (url.protocol !== 'http:' && url.protocol !== 'https:') return `${urlRule}: only http and https`
  if (url.username !== '' || url.password !== '') return 'must not carry a user or password; use `key` or `headers`'
  if (url.search !== '' || url.hash !== '' || /[?#]/.test(value)) return 'must not have a query or fragment'
  const path = API_PATH.exec(url.pathname)?.[1]
  return path === undefined ? null : `must be the base URL without ${path}: the gateway adds the path`
}

/** End of a URL that is no base URL, as it is copied from a client's configuration or from a request. */
const API_PATH = /(\/v1(?:\/(?:chat\/completions|completions|responses|messages|embeddings|models))?)\/*$/

const originRule =
  'must be "*" alone, or origins as browsers send them, like https://chat.example.com: in lower case, without a path'

/** Origins of web pages. */
export const origins = z
  .array(z.string({ error: asRule(originRule) }).check(z.refine(isOrigin, { error: originRule })))
  .check(
    z.minLength(1),
    z.refine((all) => all.length === 1 || !all.includes('*'), { error: originRule }),
  )

/** Checks an origin by hand where URL has none: browser extensions and apps. */
function isOrigin(value: string): boolean {
  if (/^https?:/.test(value)) return URL.canParse(value) && new URL(value).origin === value && !value.includes('*')
  return /^(\*|[a-z][a-z\d+.-]*:\/\/[^\s/?#@*,]+)$/.test(value)
}
