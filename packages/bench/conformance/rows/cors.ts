/** Pages in browsers: the gateway decides which origins may read responses, whatever the engine returns. */
import { engineKey, servedModel } from '../engine.ts'
import { page } from '../fleets.ts'
import { formBytes, formType } from '../form.ts'
import type { GatewayKind, RunningGateway } from '../gateway.ts'
import { send } from '../http.ts'
import type { HttpRequest } from '../http.ts'
import { check } from '../row.ts'
import type { Lab, Row } from '../row.ts'
import { speech, transcriptions } from '../speech.ts'
import { withKey } from './asks.ts'

export function corsRow(kind: GatewayKind): Row {
  return {
    name: `${kind}-cors`,
    says: `CORS headers of an engine with --allowed-origins * are replaced by the gateway's configuration (${kind}).`,
    run: async (lab) => cors(lab, kind),
  }
}

type Question = Pick<HttpRequest, 'method' | 'path' | 'headers' | 'body'>

const questions: Readonly<Record<string, Question>> = {
  models: { method: 'GET', path: '/v1/models' },
  upload: {
    method: 'POST',
    path: transcriptions,
    headers: { 'content-type': formType },
    body: formBytes(speech['speech']!.form!),
  },
  stream: {
    method: 'POST',
    path: transcriptions,
    headers: { 'content-type': formType },
    body: formBytes(speech['speech-stream']!.form!),
  },
  refusal: { method: 'POST', path: '/tokenize', body: { model: servedModel } },
  preflight: {
    method: 'OPTIONS',
    path: transcriptions,
    headers: { 'access-control-request-method': 'POST', 'access-control-request-headers': 'authorization' },
  },
}

/** Headers for a page of that origin. */
async function corsHeaders(
  url: string,
  key: string,
  { headers, ...question }: Question,
  origin: string,
): Promise<Record<string, string>> {
  const answer = await send({
    url,
    ...question,
    headers: { ...(question.method === 'OPTIONS' ? {} : { authorization: `Bearer ${key}` }), ...headers, origin },
  })
  return Object.fromEntries(Object.entries(answer.headers).filter(([name]) => name.startsWith('access-control-')))
}

async function cors(lab: Lab, kind: GatewayKind): Promise<string> {
  const engine = await lab.engine('ear')
  const gateways: readonly (readonly [RunningGateway, string, string | undefined])[] = [
    [await lab.gateway(kind, 'ear'), page, undefined],
    [await lab.gateway(kind, 'ear-pages'), 'https://other.example.com', undefined],
    [await lab.gateway(kind, 'ear-pages'), page, page],
  ]
  const key = withKey({})['authorization']!.slice(7)
  for (const [name, question] of Object.entries(questions)) {
    const open = await corsHeaders(engine.url, engineKey, question, page)
    check(open['access-control-allow-origin'] === '*', `${name}: the engine itself returned ${JSON.stringify(open)}`)
    for (const [gateway, origin, expected] of gateways) {
      const seen = await corsHeaders(gateway.url, key, question, origin)
      check(
        expected === undefined ? Object.keys(seen).length === 0 : seen['access-control-allow-origin'] === expected,
        `${name} from ${origin}, ${expected === undefined ? 'who may not' : 'who may'}: ${JSON.stringify(seen)}`,
      )
    }
  }
  return (
    `${Object.keys(questions).join(', ')}: the engine says *, the gateway nothing, and ${page} to that page ` +
    'where cors names it'
  )
}
