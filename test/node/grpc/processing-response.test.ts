import { expect, it } from 'vitest'
import {
  bodyAnswer,
  headersAnswer,
  immediateAnswer,
  streamedBody,
  trailersAnswer,
} from '../../../src/platform/node/grpc/processing-response.ts'
import vectors from '../../vectors/ext-proc.json' with { type: 'json' }

const WRITERS: Readonly<Record<string, (...args: never[]) => Buffer>> = {
  headersAnswer,
  trailersAnswer,
  streamedBody,
  bodyAnswer,
  immediateAnswer: (answer: Omit<Parameters<typeof immediateAnswer>[0], 'body'> & { readonly body: string }) =>
    immediateAnswer({ ...answer, body: Buffer.from(answer.body) }),
}

it.each(vectors.answers.map(({ call, args, frame }) => ({ call, args, frame })))(
  'writes the frame of $call $args that a protobuf library has read',
  ({ call, args, frame }) => {
    expect(WRITERS[call]!(...(args as never[])).toString('hex')).toBe(frame)
  },
)
