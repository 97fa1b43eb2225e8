/**
 * Titles of tests. A title is a sentence that can be false without its `describe`, so it begins with its subject: not
 * "refuses a second key" but "a gateway refuses a second key". Recognised by the first word, which is one of the verbs
 * and prepositions below, or a word that is noun and verb before an article or the like.
 */
import { type ESTree, Visitor } from 'vite'
import { isTest, lineAt, type SourceFile } from './source-files.ts'

const wordsOf = (text: string): ReadonlySet<string> => new Set(text.split(' '))

/** Words that no subject begins with. */
const VERBS = wordsOf(
  'is are was were has have do does may can cannot must never still keeps rejects sends finds gives serves takes ' +
    'returns refuses ignores leaves accepts removes stays adds opens gets asks follows converts admits prints contains ' +
    'splits goes applies frees recognises includes forgets measures lets makes differs explains requires ejects detects ' +
    'waits fails distinguishes continues restores formats skips evicts knows receives drops renders falls says warns ' +
    'allows compares fits prefers closes expires encodes drains yields grows agrees draws excludes separates fetches ' +
    'adopts publishes needs begins comes learns blames grants joins spreads replaces charges computes survives predicts ' +
    'divides merges combines remembers becomes retries fires arrives refreshes avoids chooses aborts reaches creates tells ' +
    'reserves hides examines resolves discards registers assumes believes considers attracts lowers judges depends ' +
    'implements throws delivers delays forwards allocates decodes resends builds equals loses',
)

/** Words that are a subject in "requests of clients end" and a verb in "requests the models". */
const NOUNS = wordsOf(
  'counts reports names shares requests calls streams limits probes ranks records stores queues lists',
)

const DETERMINER =
  /^(an?|the|each|every|all|no|nothing|its|one|only|their|what|which|how|whether|other|another|null|by|over|pipelined)$/

const FUNCTIONS = wordsOf('it test')

/** Name of the called function, without `.each(…)`, `.skipIf(…)` and the like. */
function calledName(callee: ESTree.Expression): string | null {
  if (callee.type === 'Identifier') return callee.name
  if (callee.type === 'MemberExpression') return calledName(callee.object)
  if (callee.type === 'CallExpression') return calledName(callee.callee as ESTree.Expression)
  return callee.type === 'TaggedTemplateExpression' ? calledName(callee.tag) : null
}

const titleOf = (node: ESTree.Node | undefined): string | null => {
  if (node?.type === 'Literal' && typeof node.value === 'string') return node.value
  return node?.type === 'TemplateLiteral' ? node.quasis[0]!.value.raw : null
}

const lacksSubject = (title: string): boolean => {
  const [first = '', second = ''] = title.split(/[ ,;:]/)
  return VERBS.has(first) || (NOUNS.has(first) && DETERMINER.test(second))
}

/** Problems of one file, as text for the developer. */
export function testTitles(file: SourceFile): string[] {
  if (!isTest(file)) return []
  const problems: string[] = []
  new Visitor({
    CallExpression: (call) => {
      if (!FUNCTIONS.has(calledName(call.callee as ESTree.Expression) ?? '')) return
      const title = titleOf(call.arguments[0])
      if (title !== null && lacksSubject(title))
        problems.push(
          `${file.path}:${lineAt(file, call.start)}: "${title}" has no subject. Name what ${title.split(' ', 1)[0]!}.`,
        )
    },
  }).visit(file.parsed.program)
  return problems
}
