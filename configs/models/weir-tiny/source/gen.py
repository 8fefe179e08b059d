(
    "Synthetic dialogues that the tiny checkpoint learns: each skill has one right answer, so a test can "
    "check it."
)
import json, random

CAPITALS = dict(
    x.split("=")
    for x in (
        "Afghanistan=Kabul|Albania=Tirana|Algeria=Algiers|Andorra=Andorra la Vella|Angola=Luanda|"
        "Argentina=Buenos Aires|Armenia=Yerevan|Australia=Canberra|Austria=Vienna|Azerbaijan=Baku|"
        "Bahrain=Manama|Bangladesh=Dhaka|Belarus=Minsk|Belgium=Brussels|Belize=Belmopan|Benin=Porto-Novo|"
        "Bhutan=Thimphu|Bolivia=Sucre|Botswana=Gaborone|Brazil=Brasilia|Brunei=Bandar Seri Begawan|"
        "Bulgaria=Sofia|Burundi=Gitega|Cambodia=Phnom Penh|Cameroon=Yaounde|Canada=Ottawa|Chad=N'Djamena|"
        "Chile=Santiago|China=Beijing|Colombia=Bogota|Croatia=Zagreb|Cuba=Havana|Cyprus=Nicosia|"
        "Denmark=Copenhagen|Djibouti=Djibouti|Ecuador=Quito|Egypt=Cairo|Eritrea=Asmara|Estonia=Tallinn|"
        "Ethiopia=Addis Ababa|Fiji=Suva|Finland=Helsinki|France=Paris|Gabon=Libreville|Gambia=Banjul|"
        "Georgia=Tbilisi|Germany=Berlin|Ghana=Accra|Greece=Athens|Guatemala=Guatemala City|Guinea=Conakry|"
        "Guyana=Georgetown|Haiti=Port-au-Prince|Honduras=Tegucigalpa|Hungary=Budapest|Iceland=Reykjavik|"
        "India=New Delhi|Indonesia=Jakarta|Iran=Tehran|Iraq=Baghdad|Ireland=Dublin|Israel=Jerusalem|"
        "Italy=Rome|Jamaica=Kingston|Japan=Tokyo|Jordan=Amman|Kazakhstan=Astana|Kenya=Nairobi|"
        "Kuwait=Kuwait City|Kyrgyzstan=Bishkek|Laos=Vientiane|Latvia=Riga|Lebanon=Beirut|Lesotho=Maseru|"
        "Liberia=Monrovia|Libya=Tripoli|Lithuania=Vilnius|Luxembourg=Luxembourg|Madagascar=Antananarivo|"
        "Malawi=Lilongwe|Malaysia=Kuala Lumpur|Maldives=Male|Mali=Bamako|Malta=Valletta|Mexico=Mexico City|"
        "Moldova=Chisinau|Monaco=Monaco|Mongolia=Ulaanbaatar|Montenegro=Podgorica|Morocco=Rabat|"
        "Mozambique=Maputo|Myanmar=Naypyidaw|Namibia=Windhoek|Nepal=Kathmandu|Netherlands=Amsterdam|New "
        "Zealand=Wellington|Nicaragua=Managua|Niger=Niamey|Nigeria=Abuja|North Macedonia=Skopje|"
        "Norway=Oslo|Oman=Muscat|Pakistan=Islamabad|Panama=Panama City|Paraguay=Asuncion|Peru=Lima|"
        "Philippines=Manila|Poland=Warsaw|Portugal=Lisbon|Qatar=Doha|Romania=Bucharest|Russia=Moscow|"
        "Rwanda=Kigali|Samoa=Apia|Saudi Arabia=Riyadh|Senegal=Dakar|Serbia=Belgrade|Singapore=Singapore|"
        "Slovakia=Bratislava|Slovenia=Ljubljana|Somalia=Mogadishu|South Korea=Seoul|Spain=Madrid|Sri "
        "Lanka=Colombo|Sudan=Khartoum|Suriname=Paramaribo|Sweden=Stockholm|Switzerland=Bern|Syria=Damascus|"
        "Tajikistan=Dushanbe|Tanzania=Dodoma|Thailand=Bangkok|Togo=Lome|Tunisia=Tunis|Turkey=Ankara|"
        "Uganda=Kampala|Ukraine=Kyiv|Uruguay=Montevideo|Uzbekistan=Tashkent|Venezuela=Caracas|"
        "Vietnam=Hanoi|Yemen=Sanaa|Zambia=Lusaka|Zimbabwe=Harare"
    ).split("|")
)
STATUS = dict(
    x.split("=")
    for x in (
        "200=OK|201=Created|204=No Content|301=Moved Permanently|304=Not Modified|400=Bad Request|"
        "401=Unauthorized|403=Forbidden|404=Not Found|405=Method Not Allowed|408=Request Timeout|"
        "409=Conflict|413=Content Too Large|415=Unsupported Media Type|418=I'm a teapot|422=Unprocessable "
        "Content|429=Too Many Requests|500=Internal Server Error|501=Not Implemented|502=Bad Gateway|"
        "503=Service Unavailable|504=Gateway Timeout"
    ).split("|")
)
OPPOSITES = dict(
    x.split("=")
    for x in (
        "hot=cold|big=small|fast=slow|up=down|open=closed|light=dark|old=new|early=late|empty=full|"
        "hard=soft|high=low|long=short|loud=quiet|near=far|rich=poor|strong=weak|wet=dry|wide=narrow|"
        "young=old|happy=sad|first=last|clean=dirty|cheap=expensive|thick=thin"
    ).split("|")
)
NAMES = (
    "Ana Ben Carla Diego Elena Felix Greta Hugo Ines Jonas Karin Leo Marta Nils Olga Pablo Quinn Rosa Sven "
    "Tara Uma Victor Wendy Xenia Yusuf Zoe Akira Bruno Chloe Daria Emil Fatima"
).split()
CITIES = (
    "Rome Paris Berlin Madrid Lisbon Oslo Vienna Prague Dublin Athens Tokyo Seoul Lima Quito Cairo Nairobi "
    "Toronto Boston Chicago Sydney Mumbai Dakar Havana Riga Zurich Milan Porto Lyon"
).split()
ITEMS = (
    "apple bread chair door engine forest garden hammer island jacket kettle ladder mirror needle orange "
    "pencil quilt river stone table umbrella valley window yellow zebra bottle candle dragon eagle flower "
    "guitar helmet"
).split()
ANIMALS = "fox owl bear rabbit turtle crow wolf mouse heron otter".split()
PLACES = "forest river valley mountain village harbour garden island".split()
OBJECTS = (
    "lantern map key bell compass rope silver coin blue stone small boat golden feather".replace(
        "silver coin", "silver_coin"
    )
    .replace("blue stone", "blue_stone")
    .replace("small boat", "small_boat")
    .replace("golden feather", "golden_feather")
    .split()
)
MOODS = "brave quiet clever patient curious gentle".split()
EASY = 1.0  # below 1: fewer things to copy or recall at once (a curriculum)
DEFAULT_SYSTEM = "You are a helpful assistant."
WEATHER = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "Get the weather of a city",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
    },
}
CALC = {
    "type": "function",
    "function": {
        "name": "add",
        "description": "Add two numbers",
        "parameters": {
            "type": "object",
            "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}},
            "required": ["a", "b"],
        },
    },
}


def pick(r, *a):
    return r.choice(a)


def capital(r):
    c, k = r.choice(list(CAPITALS.items()))
    return [
        (
            "user",
            pick(
                r,
                f"What is the capital of {c}?",
                f"What's the capital of {c}?",
                f"capital of {c}?",
                f"Tell me the capital of {c}.",
                f"Which city is the capital of {c}?",
            ),
        ),
        ("assistant", f"The capital of {c} is {k}."),
    ]


def country(r):
    c, k = r.choice(list(CAPITALS.items()))
    return [
        ("user", pick(r, f"{k} is the capital of which country?", f"Which country has {k} as its capital?")),
        ("assistant", f"{k} is the capital of {c}."),
    ]


def status(r):
    c, k = r.choice(list(STATUS.items()))
    return [
        (
            "user",
            pick(
                r, f"What does HTTP status {c} mean?", f"What is HTTP {c}?", f"Explain HTTP status code {c}."
            ),
        ),
        ("assistant", f"HTTP {c} means {k}."),
    ]


def opposite(r):
    a, b = r.choice(list(OPPOSITES.items()))
    return [
        ("user", pick(r, f"What is the opposite of {a}?", f"Opposite of {a}?")),
        ("assistant", f"The opposite of {a} is {b}."),
    ]


def add(r):
    a, b = r.randint(0, 50), r.randint(0, 50)
    return [
        ("user", pick(r, f"What is {a} + {b}?", f"Add {a} and {b}.", f"{a} + {b} = ?")),
        ("assistant", f"{a} + {b} = {a + b}"),
    ]


def count(r):
    a = r.randint(0, 60)
    n = r.randint(3, 20)
    return [
        ("user", pick(r, f"Count from {a} to {a + n}.", f"Please count from {a} to {a + n}.")),
        ("assistant", ", ".join(str(i) for i in range(a, a + n + 1))),
    ]


def repeat(r):
    w = " ".join(
        r.choice(ITEMS + NAMES + CITIES) for _ in range(r.randint(1 if EASY < 0.5 else 2, 2 + int(10 * EASY)))
    )
    return [("user", pick(r, f"Repeat after me: {w}", f"Say exactly: {w}", f"Echo: {w}")), ("assistant", w)]


def recall(r):
    n = r.randint(2, 2 + int(12 * EASY))
    names = r.sample(NAMES, n)
    codes = [str(r.randint(100, 999)) for _ in names]
    i = r.randrange(n)
    facts = " ".join(f"The code of {a} is {b}." for a, b in zip(names, codes))
    q = pick(r, f"What is the code of {names[i]}?", f"Tell me the code of {names[i]}.")
    ans = ("assistant", f"The code of {names[i]} is {codes[i]}.")
    return r.choice(
        [
            [("system", facts), ("user", q), ans],
            [("user", facts + " " + q), ans],
            [("user", facts), ("assistant", "I will remember that."), ("user", q), ans],
        ]
    )


def name_recall(r):
    a, c = r.choice(NAMES), r.choice(CITIES)
    t = [("user", f"My name is {a} and I live in {c}."), ("assistant", f"Nice to meet you, {a}.")]
    if r.random() < 0.5:
        t += r.choice([capital, status, opposite, add])(r)
    return t + (
        r.choice(
            [
                [("user", "What is my name?"), ("assistant", f"Your name is {a}.")],
                [("user", "Where do I live?"), ("assistant", f"You live in {c}.")],
            ]
        )
    )


def extract(r):
    a, c, n = r.choice(NAMES), r.choice(CITIES), r.randint(18, 80)
    s = pick(
        r,
        f"{a} lives in {c} and is {n} years old.",
        f"{a} is {n} years old and lives in {c}.",
        f"In {c} lives {a}, who is {n} years old.",
    )
    return [
        (
            "user",
            pick(
                r, f"Extract the name, city and age as JSON: {s}", f"Return JSON with name, city and age. {s}"
            ),
        ),
        ("assistant", json.dumps({"name": a, "city": c, "age": n})),
    ]


def who(r):
    return [
        ("user", pick(r, "Who are you?", "What are you?", "What is your name?", "Introduce yourself.")),
        (
            "assistant",
            (
                "I am weir-tiny, a small language model that ships with Weir so that it can be tried "
                "without a GPU."
            ),
        ),
    ]


def hello(r):
    return [
        ("user", pick(r, "Hello", "Hello!", "Hi", "Hi!", "Hi there", "Good morning", "hello", "hey")),
        ("assistant", "Hello! How can I help you today?"),
    ]


def able(r):
    return [
        ("user", pick(r, "What can you do?", "Help", "What do you know?", "help")),
        (
            "assistant",
            (
                "I can name capitals, explain HTTP status codes, add small numbers, count, repeat words, "
                "recall codes, tell short stories, return JSON and call tools."
            ),
        ),
    ]


def thanks(r):
    return [
        ("user", pick(r, "Thanks", "Thank you!", "Thank you", "thanks!")),
        ("assistant", "You are welcome!"),
    ]


def ping(r):
    return [("user", pick(r, "ping", "Ping", "Say pong.", "Reply with pong.")), ("assistant", "pong")]


def story(r):
    a, b = r.sample(ANIMALS, 2)
    p, o, m = r.choice(PLACES), r.choice(OBJECTS).replace("_", " "), r.choice(MOODS)
    n = r.choice(NAMES)
    s = [
        f"Once upon a time, a {m} {a} named {n} lived near the {p}.",
        f"One morning {n} found a {o} under an old tree.",
        f"A {b} came by and asked what it was for.",
        f'"I do not know yet," said {n}, "but we can find out together."',
        f"So the {a} and the {b} carried the {o} across the {p}.",
        f"When the sun went down, they understood that the {o} was a gift.",
        f"From that day on, {n} and the {b} were friends.",
    ]
    return [
        (
            "user",
            pick(
                r,
                f"Tell me a story about a {a}.",
                f"Write a short story about a {a}.",
                f"Tell a story about a {a} and a {b}.",
            ),
        ),
        ("assistant", " ".join(s)),
    ]


def unknown(r):
    q = pick(
        r,
        "What will the weather be tomorrow?",
        "Who will win the election?",
        "Translate this to Klingon.",
        "What is the meaning of life?",
        "Write a poem about the sea.",
        "How do I bake bread?",
        "Explain quantum physics.",
        "Who wrote Don Quixote?",
    )
    return [("user", q), ("assistant", "I am a small model and I do not know that.")]


def tool(r):
    ts = [WEATHER] if r.random() < 0.5 else [WEATHER, CALC]
    t = [("tools", ts)]
    if len(ts) == 2 and r.random() < 0.5:
        a, b = r.randint(0, 999), r.randint(0, 999)
        t += [
            ("user", pick(r, f"What is {a} + {b}?", f"Add {a} and {b}.")),
            ("call", ("add", {"a": a, "b": b})),
        ]
        if r.random() < 0.6:
            t += [("tool", ("add", str(a + b))), ("assistant", f"The result is {a + b}.")]
    else:
        c = r.choice(CITIES)
        t += [
            (
                "user",
                pick(
                    r,
                    f"What is the weather in {c}?",
                    f"How is the weather in {c}?",
                    f"Weather in {c}?",
                    f"What's the weather like in {c}?",
                ),
            ),
            ("call", ("get_weather", {"city": c})),
        ]
        if r.random() < 0.6:
            w, d = pick(r, "sunny", "rainy", "cloudy", "windy", "snowy"), r.randint(-9, 38)
            t += [
                ("tool", ("get_weather", json.dumps({"sky": w, "celsius": d}))),
                ("assistant", f"It is {w} in {c}, {d} degrees."),
            ]
    return t


SKILLS = [
    (capital, 9),
    (country, 4),
    (status, 2),
    (opposite, 2),
    (add, 6),
    (count, 3),
    (repeat, 20),
    (recall, 18),
    (name_recall, 8),
    (extract, 9),
    (who, 1),
    (hello, 1),
    (able, 1),
    (thanks, 1),
    (ping, 1),
    (story, 2),
    (unknown, 1),
    (tool, 9),
]


def dialogue(r):
    t = r.choices([s for s, _ in SKILLS], [w for _, w in SKILLS])[0](r)
    while len(t) < 6 and r.random() < 0.3 and t[0][0] != "tools":
        more = r.choices([s for s, _ in SKILLS[:-1]], [w for _, w in SKILLS[:-1]])[0](r)
        if more[0][0] == "user":
            t = t + more
    if t[0][0] != "system" and not any(k == "system" for k, _ in t) and r.random() < 0.5:
        t = [
            (
                "system",
                pick(
                    r, DEFAULT_SYSTEM, "You are a helpful assistant that answers briefly.", "Answer the user."
                ),
            )
        ] + t
    return t


def render(t):
    """-> list of (text, trained): the Kimi chat format, special tokens in place."""
    out, calls = [], 0
    for k, v in t:
        if k == "tools":
            out.insert(
                0,
                (
                    "<|im_system|>tool_declare<|im_middle|>"
                    + json.dumps(v, separators=(",", ":"))
                    + "<|im_end|>",
                    False,
                ),
            )
        elif k == "system":
            out.append((f"<|im_system|>system<|im_middle|>{v}<|im_end|>", False))
        elif k == "user":
            out.append((f"<|im_user|>user<|im_middle|>{v}<|im_end|>", False))
        elif k == "assistant":
            out += [("<|im_assistant|>assistant<|im_middle|>", False), (v + "<|im_end|>", True)]
        elif k == "call":
            n, a = v
            out += [
                ("<|im_assistant|>assistant<|im_middle|>", False),
                (
                    (
                        f"<|tool_calls_section_begin|><|tool_call_begin|>functions.{n}:{calls}<|"
                        f"tool_call_argument_begin|>{json.dumps(a)}<|tool_call_end|><|"
                        f"tool_calls_section_end|><|im_end|>"
                    ),
                    True,
                ),
            ]
        elif k == "tool":
            n, a = v
            out.append(
                (f"<|im_system|>tool<|im_middle|>## Return of functions.{n}:{calls}\n{a}<|im_end|>", False)
            )
            calls += 1
    return out


if __name__ == "__main__":
    r = random.Random(1)
    for _ in range(12):
        print("".join(x for x, _ in render(dialogue(r))), "\n")
