import { testNodePage } from './node-page.ts'

testNodePage('operate.md')
