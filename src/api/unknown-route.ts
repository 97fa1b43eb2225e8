import { didYouMean } from '../config/suggest.ts'
import { Failure } from '../failure.ts'
import { endpoints } from '../protocols/protocols.ts'

const BASE = 'The base URL of this API ends in /v1.'

/** Longest path that is shown and compared. */
const MAX_PATH = 100

/** Paths without parameters that clients call. */
const PATHS: readonly string[] = [...endpoints.map(({ path }) => path), '/v1/models']

/** Failure of a request to a path that this gateway does not serve. It names the most similar one. */
export function unknownRoute(method: string, path: string): Failure {
  const shown = path.slice(0, MAX_PATH)
  const [hint, next] = hintFor(shown)
  return new Failure('route_unknown', `Unknown URL: ${method} ${shown}${hint || '.'} ${next}`)
}

/** Paths of providers that engines lack. */
const LACKED: Readonly<Record<string, string>> = {
  '/v1/responses/compact': 'Engines do not compact. Codex does so itself if the name of its provider is not OpenAI.',
}

function hintFor(path: string): readonly [hint: string, next: string] {
  const lacked = LACKED[path]
  if (lacked !== undefined) return ['', lacked]
  // Anthropic's clients add /v1 to the base URL, OpenAI's do not.
  if (path.startsWith('/v1/v1/'))
    return ['', 'The client adds /v1 to its base URL: configure the base URL without /v1.']
  const endpoint = PATHS.find((one) => isBaseOf(one, path))
  if (endpoint !== undefined) return [didYouMean(endpoint, PATHS), BASE]
  if (!path.startsWith('/v1/')) return [didYouMean(`/v1${path}`, PATHS), BASE]
  const hint = didYouMean(path, PATHS)
  return [hint, hint === '' ? 'docs/api.md lists the paths of this API.' : BASE]
}

/** The client's base URL has the path of an endpoint, to which it adds that of a request. */
const isBaseOf = (endpoint: string, path: string): boolean =>
  path.startsWith(`${endpoint}/`) && PATHS.some((one) => path === endpoint + one || path === endpoint + one.slice(3))
