import { expect, it } from 'vitest'
import { ANYONE } from '../../../src/api/auth/caller.ts'
import { requestedModel } from '../../../src/api/body/choose-model.ts'
import { parseInferenceRequest } from '../../../src/api/body/parse-request.ts'
import { requestedOptions } from '../../../src/api/body/requested-options.ts'
import { ModelRegistry } from '../../../src/api/model-registry.ts'
import { RequestContext } from '../../../src/api/request-context.ts'
import { MemoryResponses } from '../../../src/origin/memory-responses.ts'
import { openaiErrors } from '../../../src/protocols/error-shape.ts'
import { endpointOf } from '../../../src/protocols/protocols.ts'
import { configOf } from '../../kit/recording-ports.ts'

const scope = { background: () => {}, client: null, remoteAddress: null }
const clock = { now: () => 0, newId: () => 'id' }

/** Parses a request whose body a platform has, or gets later. */
function parsed(path: string, body: Uint8Array | Promise<Uint8Array>) {
  const config = configOf()
  const models = new ModelRegistry(config)
  const request = {
    method: 'POST',
    url: path,
    headers: new Headers(),
    signal: new AbortController().signal,
    collect: () => body,
    giveBack: () => {},
  }
  const parts = {
    config,
    ports: {},
    models,
    adapters: null,
    optionsOf: requestedOptions,
    chooseModel: requestedModel(models),
    inRegions: () => ANYONE,
    storedResponses: new MemoryResponses(1),
  }
  return parseInferenceRequest(
    parts,
    endpointOf(path)!,
    new RequestContext(request, scope, clock, openaiErrors),
    ANYONE,
  )
}

const body = new TextEncoder().encode(JSON.stringify({ model: 'qwen', messages: [{ role: 'user', content: 'hi' }] }))

it('a request whose body is there is parsed without a promise', () => {
  expect(parsed('/v1/chat/completions', body)).toMatchObject({ model: 'qwen', pinned: null })
})

it('a request whose body comes later is parsed then', async () => {
  const later = parsed('/v1/chat/completions', Promise.resolve(body))
  expect(later).toBeInstanceOf(Promise)
  expect(await later).toMatchObject({ model: 'qwen', fields: { model: 'qwen' } })
})

it('a request that may continue a stored response is looked up first', async () => {
  expect(await parsed('/v1/responses', body)).toMatchObject({ model: 'qwen', pinned: null })
})
