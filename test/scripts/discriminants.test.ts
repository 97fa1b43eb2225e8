import { parseSync } from 'vite'
import { describe, expect, it } from 'vitest'
import { comparedDiscriminants } from '../../scripts/source-checks/discriminants.ts'

const problemsOf = (text: string, path = 'src/origin/example.ts'): string[] =>
  comparedDiscriminants({ path, text, parsed: parseSync(path, text) })

const CHAT = `import { chat } from '../protocols/chat.ts'\n`
const VLLM = `import { vllm } from '../engines/vllm.ts'\n`

describe('code that decides by the protocol or the engine type', () => {
  it.each([
    ['the name of a protocol', `const is = protocol.name === 'chat'`],
    ['a copy of the name', `const is = request.api !== 'completions'`],
    ['a case for a name', `switch (api) { case 'messages': break }`],
    ['a protocol itself', `${CHAT}const is = exchange.protocol === chat`],
    ['a protocol under another name', `${CHAT}const is = mine !== chat`],
    ['a protocol that is passed', `const is = (other) => exchange?.protocol === other`],
    ['the path of a protocol', `const is = path === '/v1/responses'`],
    ['the end of a path', `const is = path.endsWith('/v1/messages')`],
    ['the name of an engine type', `const is = 'sglang' == kind`],
    ['an ordinary word beside kind', `const is = engine.kind === 'unknown'`],
    ['a case for an engine type', `switch (type.kind) { case 'external': break }`],
    ['an engine type itself', `${VLLM}const is = typeOf(engine) === vllm`],
    ['a table of engine types', `const table = { vllm: 1, 'llama.cpp': 2 }`],
  ])('code that decides by the protocol or the engine type is reported: %s', (_, text) => {
    expect(problemsOf(text)).toHaveLength(1)
  })

  it.each([
    ['the scheme of a URL', `const is = url.protocol === 'https:'`],
    ['no protocol', `const is = protocol === null || protocol === undefined`],
    ['the form of a prompt', `const is = prompt.form === 'chat'`],
    ['a word that is no kind', `const is = answer === 'unknown'`],
    ['a constant of a stream', `import { DONE } from '../protocols/stream/event.ts'\nconst is = payload === DONE`],
    ['a member of a type', `${VLLM}const fields = vllm.removedFields`],
  ])('code that decides by the protocol or the engine type is none: %s', (_, text) => {
    expect(problemsOf(text)).toEqual([])
  })

  it('code that decides by the protocol or the engine type may stand in the two folders, and an engine type in the configuration', () => {
    expect(problemsOf(`const is = protocol.name === 'chat'`, 'src/protocols/example.ts')).toEqual([])
    expect(problemsOf(`const is = kind === 'external'`, 'src/config/example.ts')).toEqual([])
    expect(problemsOf(`const is = protocol.name === 'chat'`, 'src/config/example.ts')).toHaveLength(1)
    expect(problemsOf(`const is = kind === 'external'`, 'packages/bench/example.ts')).toEqual([])
  })
})
