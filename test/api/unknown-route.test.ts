import { expect, it } from 'vitest'
import { unknownRoute } from '../../src/api/unknown-route.ts'

const messageOf = (path: string): string => unknownRoute('POST', path).message

it.each([
  ['/v1/chat/completion', 'Unknown URL: POST /v1/chat/completion; did you mean "/v1/chat/completions"?'],
  ['/chat/completions', 'Unknown URL: POST /chat/completions; did you mean "/v1/chat/completions"?'],
  ['/v1/model', 'Unknown URL: POST /v1/model; did you mean "/v1/models"?'],
  [
    '/v1/chat/completions/chat/completions',
    'Unknown URL: POST /v1/chat/completions/chat/completions; did you mean "/v1/chat/completions"?',
  ],
  ['/v1/messages/v1/messages', 'Unknown URL: POST /v1/messages/v1/messages; did you mean "/v1/messages"?'],
  ['/api/generate', 'Unknown URL: POST /api/generate.'],
])('%s: the most similar path is named, and where the base URL ends', (path, message) => {
  expect(messageOf(path)).toBe(`${message} The base URL of this API ends in /v1.`)
})

it('a path below /v1 that resembles none leads to their list', () => {
  expect(messageOf('/v1/fine_tuning/jobs')).toBe(
    'Unknown URL: POST /v1/fine_tuning/jobs. docs/api.md lists the paths of this API.',
  )
})

it('a path with /v1 twice leads to the base URL of the client', () => {
  expect(messageOf('/v1/v1/messages')).toContain('configure the base URL without /v1')
})

it('a long path is shown in part', () => {
  expect(messageOf(`/${'x'.repeat(10_000)}`).length).toBeLessThan(200)
})
