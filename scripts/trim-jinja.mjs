// The chat templates' language without the words of its errors and the names of its kinds, 2.4 kB of the Worker, gzipped. Templates are
// compiled into vocabularies on Node (`firstlight vocab`), which has the words. wrangler.toml puts it in the library's place.

/** An error made of one text, with whatever is put into it, or of one of two; not one that passes on what a template says. */
const WORDS = /(throw new \w*Error)\((?:`(?:[^`$\\]|\\.|\$\{(?:[^{}`]|\{[^{}]*\}|`[^`]*`)*\})*`|(?:\s*\w+ === "\w+" \? "[^"\\]*" : )?"(?:[^"\\]|\\.)*")\s*\)/g

/** What the parser says of a token that is not the expected one. */
const EXPECTED = /(\bexpect\(TOKEN_TYPES\.\w+), "[^"]*"\)/g

/** The same module; its errors are what they are, and say nothing. */
export const wordless = (module) => module.replace(WORDS, '$1()').replace(EXPECTED, '$1)')

/** The same module; its kinds of tokens, which nobody outside looks at, are numbers and no properties of a frozen object of words. */
export function numbered(module) {
  const table = /^var TOKEN_TYPES = Object\.freeze\(\{\n([\s\S]*?)\n\}\);$/m.exec(module)
  if (table === null) throw new Error('scripts/trim-jinja.mjs: this version of the library keeps its kinds of tokens elsewhere')
  const names = Array.from(table[1].matchAll(/^ +(\w+): "\1"/gm), ([, name]) => name)
  const numberOf = (name) => {
    if (!names.includes(name)) throw new Error(`scripts/trim-jinja.mjs: nobody says what kind of token ${name} is`)
    // Not 0, which is false.
    return String(names.indexOf(name) + 1)
  }
  return module
    .replace(table[0], '')
    .replace(/\bTOKEN_TYPES\.(\w+)/g, (_, name) => numberOf(name))
    .replace(/(\btokens\[[^\]]+\]\.type [!=]== )"(\w+)"/g, (_, compared, name) => compared + numberOf(name))
}

/** What a node or a value says of what it is, and where that is asked. */
const KIND = /(^ {2}type = |\.type [!=]== |\bcase )"([A-Z]\w+)"/gm

/** The same module; the kinds of its nodes and values are numbers, too, which nobody outside looks at. */
export function kindless(module) {
  const names = Array.from(module.matchAll(/^ {2}type = "(\w+)";$/gm), ([, name]) => name)
  if (names.length === 0) throw new Error('scripts/trim-jinja.mjs: this version of the library keeps its kinds of nodes elsewhere')
  const text = module.replace(KIND, (whole, before, name) => (names.includes(name) ? before + String(names.indexOf(name) + 1) : whole))
  const left = names.find((name) => text.includes(`"${name}"`))
  if (left !== undefined) throw new Error(`scripts/trim-jinja.mjs: something else asks for ${left}`)
  return text
}

/** What is computed as the module loads, though only its formatter asks for it, or a class could have it as its own. */
const LOADED = [
  [/^(var PRECEDENCE = )(?=Object\.freeze\(\{$)/m, '$1/* @__PURE__ */ '],
  [/^var __defProp = .*\nvar __defNormalProp = .*\nvar __publicField = .*\n(?: {2}.*\n)+\};\n/m, ''],
  [/^__publicField\(Environment, "TESTS", /m, 'Environment.TESTS = ('],
]

/** The same module; a bundler can leave its formatter's table out, and the helper of older classes. */
export function trimmable(module) {
  return LOADED.reduce((text, [there, instead]) => {
    if (!there.test(text)) throw new Error(`scripts/trim-jinja.mjs: this version of the library has no ${there}`)
    return text.replace(there, instead)
  }, module)
}

/** Its nodes' parts, its interpreter's methods and its options, by names that nobody outside says: 0.3 kB. */
export const OWN_NAMES = [
  '__bool__', '_builtins', 'alternate', 'applyFilter', 'assignee', 'bindMacroArguments', 'builtins', 'callee', 'callerArgs', 'computed', 'condition', 'declareVariable',
  'defaultBlock', 'defaultValue', 'ensureAscii', 'evalProgram', 'evaluate', 'evaluateArguments', 'evaluateBinaryExpression', 'evaluateBlock', 'evaluateCallExpression',
  'evaluateCallStatement', 'evaluateFilterExpression', 'evaluateFilterStatement', 'evaluateFor', 'evaluateIdentifier', 'evaluateIf', 'evaluateMacro', 'evaluateMemberExpression',
  'evaluateSelectExpression', 'evaluateSet', 'evaluateSliceExpression', 'evaluateTernaryExpression', 'evaluateTestExpression', 'evaluateUnaryExpression', 'falseExpr', 'lhs',
  'lookupVariable', 'loopvar', 'negate', 'operand', 'operator', 'property', 'setVariable', 'sortKeys', 'trueExpr', 'variables',
]
