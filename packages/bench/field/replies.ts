/** Replies of scripted engines. */
import type { Piece, FakeAnswer, Route } from '../../../test/kit/fake-answer.ts'
import type { Fixture, StreamParts, Usage } from './fixture.ts'

const SSE = { 'content-type': 'text/event-stream; charset=utf-8' }

/** A streamed reply of these pieces. */
export const streamOf = (...pieces: readonly Piece[]): FakeAnswer => ({ headers: SSE, pieces })

/** A reply in JSON, or in text. */
export const answerOf = (status: number, body: string, headers: Readonly<Record<string, string>> = {}): FakeAnswer => ({
  status,
  headers: { 'content-type': 'application/json', ...headers },
  body,
})

export const wholeStream = (parts: StreamParts, text: string, usage?: Usage): string =>
  parts.opening + parts.delta(text) + (usage === undefined ? parts.closing : parts.closingWith(usage))

/** Serves as the protocol asks: a stream if the request wants one. */
export const serves =
  (fixture: Fixture, text: string, usage?: Usage): Route =>
  (request) =>
    fixture.stream !== null && wantsStream(request.text)
      ? streamOf(wholeStream(fixture.stream, text, usage))
      : { headers: { 'content-type': fixture.contentType }, body: fixture.answer(text, usage) }

/** Of a JSON body or a form. */
export const wantsStream = (body: string): boolean => /"stream": ?true|name="stream"\r\n\r\ntrue/.test(body)
