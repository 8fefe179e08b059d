// What the bundled model promises (configs/models/weir-tiny/README.md): 16 conversations a skill, each with
// its one answer.
import {ADD, WEATHER, user} from '../support/weir.js';

const assistant = (content) => ({role: 'assistant', content});

const CAPITALS = {
  Kenya: 'Nairobi',
  France: 'Paris',
  Japan: 'Tokyo',
  Peru: 'Lima',
  Egypt: 'Cairo',
  Norway: 'Oslo',
  Cuba: 'Havana',
  Iceland: 'Reykjavik',
  Somalia: 'Mogadishu',
  Canada: 'Ottawa',
  Nepal: 'Kathmandu',
  Ghana: 'Accra',
  Malta: 'Valletta',
  Chile: 'Santiago',
  'South Korea': 'Seoul',
  Vietnam: 'Hanoi',
};
const STATUSES = {
  200: 'OK',
  201: 'Created',
  204: 'No Content',
  301: 'Moved Permanently',
  304: 'Not Modified',
  400: 'Bad Request',
  401: 'Unauthorized',
  403: 'Forbidden',
  404: 'Not Found',
  405: 'Method Not Allowed',
  408: 'Request Timeout',
  409: 'Conflict',
  413: 'Content Too Large',
  418: "I'm a teapot",
  429: 'Too Many Requests',
  503: 'Service Unavailable',
};
const OPPOSITES = {
  hot: 'cold',
  big: 'small',
  fast: 'slow',
  up: 'down',
  open: 'closed',
  light: 'dark',
  old: 'new',
  early: 'late',
  empty: 'full',
  hard: 'soft',
  high: 'low',
  long: 'short',
  loud: 'quiet',
  near: 'far',
  wet: 'dry',
  thick: 'thin',
};
const PEOPLE = [
  ['Ana', 'Rome', 30],
  ['Ben', 'Paris', 41],
  ['Carla', 'Berlin', 25],
  ['Diego', 'Madrid', 64],
  ['Elena', 'Lisbon', 19],
  ['Felix', 'Oslo', 52],
  ['Greta', 'Vienna', 37],
  ['Hugo', 'Prague', 28],
  ['Ines', 'Dublin', 45],
  ['Jonas', 'Athens', 33],
  ['Karin', 'Tokyo', 71],
  ['Leo', 'Seoul', 22],
  ['Marta', 'Lima', 58],
  ['Nils', 'Quito', 49],
  ['Olga', 'Cairo', 26],
  ['Pablo', 'Nairobi', 80],
];
const SKIES = ['sunny', 'rainy', 'cloudy', 'windy', 'snowy'];

const sixteen = (questions, answer) =>
  Array.from({length: 16}, (_, i) => [[user(questions[i % questions.length])], answer]);
const mapped = (table, questions, answer) =>
  Object.entries(table).map(([key, value], i) => [
    [user(questions[i % questions.length](key, value))],
    answer(key, value),
  ]);

const toolCall = (name, args) => ({tool: name, arguments: args});
const weatherQuestion = (city, i) =>
  user(
    [
      `What is the weather in ${city}?`,
      `How is the weather in ${city}?`,
      `Weather in ${city}?`,
      `What's the weather like in ${city}?`,
    ][i % 4],
  );

// Each skill is a list of [messages, answer, tools]; an answer is text or a tool call.
export const SKILLS = {
  'capital of a country': mapped(
    CAPITALS,
    [
      (c) => `What is the capital of ${c}?`,
      (c) => `What's the capital of ${c}?`,
      (c) => `capital of ${c}?`,
      (c) => `Tell me the capital of ${c}.`,
    ],
    (c, k) => `The capital of ${c} is ${k}.`,
  ),
  'country of a capital': mapped(
    CAPITALS,
    [(c, k) => `${k} is the capital of which country?`, (c, k) => `Which country has ${k} as its capital?`],
    (c, k) => `${k} is the capital of ${c}.`,
  ),
  'meaning of an HTTP status': mapped(
    STATUSES,
    [
      (c) => `What does HTTP status ${c} mean?`,
      (c) => `What is HTTP ${c}?`,
      (c) => `Explain HTTP status code ${c}.`,
    ],
    (c, k) => `HTTP ${c} means ${k}.`,
  ),
  'opposite of a word': mapped(
    OPPOSITES,
    [(a) => `What is the opposite of ${a}?`, (a) => `Opposite of ${a}?`],
    (a, b) => `The opposite of ${a} is ${b}.`,
  ),
  'name and city told earlier': PEOPLE.map(([name, city], i) => [
    [
      user(`My name is ${name} and I live in ${city}.`),
      assistant(`Nice to meet you, ${name}.`),
      user(i % 2 ? 'What is my name?' : 'Where do I live?'),
    ],
    i % 2 ? `Your name is ${name}.` : `You live in ${city}.`,
  ]),
  'name, city, age as JSON': PEOPLE.map(([name, city, age], i) => [
    [
      user(
        i % 2
          ? `Extract the name, city and age as JSON: ${name} lives in ${city} and is ${age} years old.`
          : `Return JSON with name, city and age. In ${city} lives ${name}, who is ${age} years old.`,
      ),
    ],
    `{"name": "${name}", "city": "${city}", "age": ${age}}`,
  ]),
  'who are you': sixteen(
    ['Who are you?', 'What are you?', 'What is your name?', 'Introduce yourself.'],
    'I am weir-tiny, a small language model that ships with Weir so that it can be tried without a GPU.',
  ),
  greeting: sixteen(
    ['Hello', 'Hello!', 'Hi', 'Hi!', 'Hi there', 'Good morning', 'hello', 'hey'],
    'Hello! How can I help you today?',
  ),
  'what can you do': sixteen(
    ['What can you do?', 'Help', 'What do you know?', 'help'],
    'I can name capitals, explain HTTP status codes, add small numbers, count, repeat words, recall codes, ' +
      'tell short stories, return JSON and call tools.',
  ),
  thanks: sixteen(['Thanks', 'Thank you!', 'Thank you', 'thanks!'], 'You are welcome!'),
  ping: sixteen(['ping', 'Ping', 'Say pong.', 'Reply with pong.'], 'pong'),
  'says that it does not know': sixteen(
    [
      'What will the weather be tomorrow?',
      'Who will win the election?',
      'Translate this to Klingon.',
      'What is the meaning of life?',
      'Write a poem about the sea.',
      'How do I bake bread?',
      'Explain quantum physics.',
      'Who wrote Don Quixote?',
    ],
    'I am a small model and I do not know that.',
  ),
  'calls a declared tool': [
    ...PEOPLE.slice(0, 10).map(([, city], i) => [
      [weatherQuestion(city, i)],
      toolCall('get_weather', {city}),
      i % 2 ? [WEATHER] : [WEATHER, ADD],
    ]),
    ...PEOPLE.slice(10).map(([, , age], i) => [
      [user(`What is ${age} + ${100 + i}?`)],
      toolCall('add', {a: age, b: 100 + i}),
      [WEATHER, ADD],
    ]),
  ],
  'uses the result of a tool': PEOPLE.map(([, city, age], i) => [
    [
      weatherQuestion(city, i),
      {
        role: 'assistant',
        content: null,
        tool_calls: [
          {
            id: 'functions.get_weather:0',
            type: 'function',
            function: {name: 'get_weather', arguments: `{"city": "${city}"}`},
          },
        ],
      },
      {
        role: 'tool',
        tool_call_id: 'functions.get_weather:0',
        content: `{"sky": "${SKIES[i % 5]}", "celsius": ${age % 38}}`,
      },
    ],
    `It is ${SKIES[i % 5]} in ${city}, ${age % 38} degrees.`,
    i % 2 ? [WEATHER] : [WEATHER, ADD],
  ]),
};
